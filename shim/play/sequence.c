#include <stdio.h>
#include <string.h>
#include "sequence.h"

// digits finds the number of the first "seq=" that stands at the beginning of a word.
static bool digits(const char *text, size_t length, size_t *at, size_t *n, uint64_t *value) {
  for (size_t i = 0; i + 4 < length; i++) {
    if (memcmp(text + i, "seq=", 4) || (i && text[i - 1] != ' ' && text[i - 1] != ',')) continue;
    *at = i + 4, *n = 0, *value = 0;
    for (; *at + *n < length && *n < 18 && text[*at + *n] >= '0' && text[*at + *n] <= '9'; ++*n)
      *value = *value * 10 + (uint64_t)(text[*at + *n] - '0');
    return *n > 0;
  }
  return false;
}

uint64_t sequence_period(const recording *r) {
  uint64_t low = UINT64_MAX, high = 0;
  for (size_t i = 0; i < r->n_frames; i++) {
    const frame *f = &r->frames[i];
    size_t at, n;
    uint64_t value;
    if (f->kind != PUSH || get32(f->body, 16) || !digits((const char *)f->body + 24, f->length - 24, &at, &n, &value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? high - low + 1 : 0;
}

size_t sequence_shift(const char *text, size_t length, uint64_t by, char *out) {
  size_t at, n;
  uint64_t value;
  if (!by || !digits(text, length, &at, &n, &value)) {
    memcpy(out, text, length);
    return length;
  }
  memcpy(out, text, at);
  size_t wrote = (size_t)sprintf(out + at, "%llu", (unsigned long long)(value + by));
  memcpy(out + at + wrote, text + at + n, length - at - n);
  return length - n + wrote;
}
