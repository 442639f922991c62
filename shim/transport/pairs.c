// Key-values: a flat run of them, since there are a dozen.
#include "transport/pairs.h"

#include "transport/wire.h"

#define KEY_MAX 64u
#define VALUE_MAX 4096u
#define PAIRS_MAX 256u

static kw_pair pair_at(const uint8_t *at) {
  kw_pair p;
  memcpy(&p, at, sizeof p);
  return p;
}

static size_t size_of(kw_pair p) { return sizeof p + p.key_length + p.value_length; }

// take_out removes a key's pair and returns how many others there are.
static uint32_t take_out(struct bytes *pairs, const uint8_t *key, size_t length) {
  uint32_t count = 0;
  for (size_t at = 0; at < pairs->used;) {
    uint8_t *here = pairs->data + at;
    kw_pair p = pair_at(here);
    if (p.key_length != length || memcmp(here + sizeof p, key, length) != 0) {
      at += size_of(p);
      count++;
      continue;
    }
    pairs->used -= size_of(p);
    memmove(here, here + size_of(p), pairs->used - at);
  }
  return count;
}

static void set(struct bytes *pairs, const uint8_t *key, size_t keys, const uint8_t *value, size_t values) {
  if (keys > KEY_MAX) keys = KEY_MAX;
  if (values > VALUE_MAX) values = VALUE_MAX;
  if (take_out(pairs, key, keys) == PAIRS_MAX) return;
  uint8_t *to = bytes_add(pairs, sizeof(kw_pair) + keys + values);
  if (to == NULL) return;
  kw_pair p = {.key_length = (uint16_t)keys, .value_length = (uint32_t)values};
  memcpy(to, &p, sizeof p);
  memcpy(to + sizeof p, key, keys);
  memcpy(to + sizeof p + keys, value, values);
}

void pairs_set(struct bytes *pairs, const char *key, const char *value) {
  set(pairs, (const uint8_t *)key, strlen(key), (const uint8_t *)value, strlen(value));
}

void pairs_merge(struct bytes *pairs, const uint8_t *body, uint32_t length) {
  for (uint32_t at = 0; at < length;) {
    kw_pair p = pair_at(body + at);
    set(pairs, body + at + sizeof p, p.key_length, body + at + sizeof p + p.key_length, p.value_length);
    at += (uint32_t)size_of(p);
  }
}
