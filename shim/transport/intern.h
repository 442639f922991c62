// Texts and their ids, from 1, in the order of their coming; bounded; nothing is ever taken out.
#ifndef KERNHES_INTERN_H
#define KERNHES_INTERN_H

#include <stddef.h>
#include <stdint.h>

#define INTERN_IDS 65536u
#define INTERN_BYTES (16u << 20)

struct interned {
  const uint8_t *bytes;
  uint32_t length;
};

struct chunk;

struct intern {
  struct interned *texts; // by id - 1
  uint32_t count;
  uint64_t used;      // bytes of texts
  uint32_t *slots;    // ids; 0: free
  struct chunk *chunk; // where the last text lies
};

// intern_find gives the id of a text, or 0 if it has none.
uint32_t intern_find(const struct intern *t, const void *bytes, uint32_t length);

// intern_id gives the id of a text, a new one if need be; 0 if it does not fit the bounds or there is no memory.
uint32_t intern_id(struct intern *t, const void *bytes, uint32_t length);

struct interned intern_text(const struct intern *t, uint32_t id); // of a known id; empty of another
void intern_free(struct intern *t);

#endif
