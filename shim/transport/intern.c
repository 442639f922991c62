// Interning by content: open addressing over ids, texts in chunks that never move.
#include "transport/intern.h"

#include "transport/bytes.h"

#define SLOTS (INTERN_IDS * 2u)
#define CHUNK (256u << 10) // bytes

struct chunk {
  struct chunk *before;
  uint32_t used, room;
  uint8_t bytes[];
};

static bool make(struct intern *t) {
  if (t->slots == NULL) t->slots = calloc(SLOTS, sizeof *t->slots);
  if (t->texts == NULL) t->texts = malloc(INTERN_IDS * sizeof *t->texts);
  return t->slots != NULL && t->texts != NULL;
}

// slot gives where a text is, or where it would go.
static uint32_t *slot(const struct intern *t, const void *bytes, uint32_t length) {
  for (uint64_t i = hash_bytes(bytes, length);; i++) {
    uint32_t *s = &t->slots[i % SLOTS];
    if (*s == 0) return s;
    const struct interned *text = &t->texts[*s - 1];
    if (text->length == length && memcmp(text->bytes, bytes, length) == 0) return s;
  }
}

uint32_t intern_find(const struct intern *t, const void *bytes, uint32_t length) {
  return t->slots == NULL || t->texts == NULL ? 0 : *slot(t, bytes, length);
}

static uint8_t *room(struct intern *t, uint32_t length) {
  if (t->chunk == NULL || t->chunk->room - t->chunk->used < length) {
    uint32_t size = length > CHUNK ? length : CHUNK;
    struct chunk *c = malloc(sizeof *c + size);
    if (c == NULL) return NULL;
    *c = (struct chunk){.before = t->chunk, .room = size};
    t->chunk = c;
  }
  uint8_t *at = t->chunk->bytes + t->chunk->used;
  t->chunk->used += length;
  return at;
}

uint32_t intern_id(struct intern *t, const void *bytes, uint32_t length) {
  if (!make(t)) return 0;
  uint32_t *s = slot(t, bytes, length);
  if (*s != 0) return *s;
  if (t->count == INTERN_IDS || t->used + length > INTERN_BYTES) return 0;
  uint8_t *copy = room(t, length);
  if (copy == NULL) return 0;
  memcpy(copy, bytes, length);
  t->texts[t->count++] = (struct interned){.bytes = copy, .length = length};
  t->used += length;
  *s = t->count;
  return t->count;
}

struct interned intern_text(const struct intern *t, uint32_t id) {
  if (id == 0 || id > t->count) return (struct interned){0};
  return t->texts[id - 1];
}

void intern_free(struct intern *t) {
  for (struct chunk *c = t->chunk, *before; c != NULL; c = before) {
    before = c->before;
    free(c);
  }
  free(t->texts);
  free(t->slots);
  *t = (struct intern){0};
}
