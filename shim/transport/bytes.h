// A growing run of bytes, and the hash that every table here uses. For the shim's own threads only.
#ifndef KERNHES_BYTES_H
#define KERNHES_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
  uint8_t *data;
  size_t used, room;
};

// bytes_room makes room for n more and returns where they go, or NULL without memory. What it returned before may move.
static inline void *bytes_room(struct bytes *b, size_t n) {
  if (b->room - b->used < n) {
    size_t room = b->room < 512 ? 1024 : b->room * 2;
    while (room - b->used < n) room *= 2;
    uint8_t *data = realloc(b->data, room);
    if (data == NULL) return NULL;
    b->data = data;
    b->room = room;
  }
  return b->data + b->used;
}

// bytes_add appends n zero bytes and returns them, or NULL without memory.
static inline void *bytes_add(struct bytes *b, size_t n) {
  uint8_t *at = bytes_room(b, n);
  if (at == NULL) return NULL;
  memset(at, 0, n);
  b->used += n;
  return at;
}

static inline bool bytes_put(struct bytes *b, const void *from, size_t n) {
  void *to = bytes_add(b, n);
  if (to != NULL && n > 0) memcpy(to, from, n);
  return to != NULL;
}

static inline void bytes_free(struct bytes *b) {
  free(b->data);
  *b = (struct bytes){0};
}

// bytes_wipe frees what held a secret.
static inline void bytes_wipe(struct bytes *b) {
  if (b->data != NULL) explicit_bzero(b->data, b->room);
  bytes_free(b);
}

static inline uint64_t hash_mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ull;
  return h ^ h >> 33;
}

// hash_bytes takes eight bytes at a time: names of kernels run to thousands of bytes.
static inline uint64_t hash_bytes(const void *from, size_t n) {
  const uint8_t *p = from;
  uint64_t h = 0x9e3779b97f4a7c15ull ^ n, w;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&w, p, 8);
    h = (h ^ w) * 0x2545f4914f6cdd1dull;
    h ^= h >> 32;
  }
  w = 0;
  memcpy(&w, p, n);
  return hash_mix(h ^ w);
}

#endif
