// Key-values as HELLO and INFO carry them: kw_pair, key, value, end to end.
#ifndef KERNHES_PAIRS_H
#define KERNHES_PAIRS_H

#include "transport/bytes.h"

#include <stdint.h>

// pairs_set puts a pair in place of one with the same key. Keys are cut at 64 bytes, values at 4,096;
// a 257th pair is left out.
void pairs_set(struct bytes *pairs, const char *key, const char *value);

// pairs_merge sets each pair of body.
void pairs_merge(struct bytes *pairs, const uint8_t *body, uint32_t length);

#endif
