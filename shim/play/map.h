// A map from u64 to u64 that only grows: pointers to names, correlation ids to launches.
#ifndef KERNHES_PLAY_MAP_H
#define KERNHES_PLAY_MAP_H

#include <stdint.h>
#include <stdlib.h>

typedef struct { uint64_t key, value; uint8_t used; } map_slot;
typedef struct { map_slot *slots; size_t size, used; } map;

static inline map_slot *map_find(const map *m, uint64_t key) {
  if (!m->size) return NULL;
  for (size_t i = (key * 0x9e3779b97f4a7c15ull >> 20) % m->size;; i = (i + 1) % m->size) {
    map_slot *s = &m->slots[i];
    if (!s->used || s->key == key) return s;
  }
}

static inline void map_put(map *m, uint64_t key, uint64_t value) {
  if (2 * m->used >= m->size) {
    map bigger = {.size = m->size ? m->size * 2 : 256};
    if (!(bigger.slots = calloc(bigger.size, sizeof *bigger.slots))) abort();
    for (size_t i = 0; i < m->size; i++)
      if (m->slots[i].used) *map_find(&bigger, m->slots[i].key) = m->slots[i];
    bigger.used = m->used;
    free(m->slots);
    *m = bigger;
  }
  map_slot *s = map_find(m, key);
  m->used += !s->used;
  *s = (map_slot){key, value, 1};
}

// map_get gives the value, or otherwise.
static inline uint64_t map_get(const map *m, uint64_t key, uint64_t otherwise) {
  const map_slot *s = map_find(m, key);
  return s && s->used ? s->value : otherwise;
}

static inline void map_free(map *m) {
  free(m->slots);
  *m = (map){0};
}

#endif
