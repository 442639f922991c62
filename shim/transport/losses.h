// What was lost, by reason and kind, until it is said in LOST frames.
#ifndef KERNHES_LOSSES_H
#define KERNHES_LOSSES_H

#include "transport/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define LOSSES_REASONS (KW_LOST_SHIM_MALFORMED + 1)
#define LOSSES_WHATS (KW_OF_EVENTS + 1)

struct loss {
  uint64_t count;
  uint64_t from, to; // unix ns; 0: not known
};

struct losses {
  struct loss of[LOSSES_REASONS][LOSSES_WHATS];
};

// losses_add widens a loss by another of its kind. An end that is not known for one is not known for both.
static inline void losses_add(struct losses *l, uint32_t reason, uint32_t what, struct loss more) {
  if (reason >= LOSSES_REASONS || what >= LOSSES_WHATS || more.count == 0) return;
  struct loss *to = &l->of[reason][what];
  if (to->count == 0) {
    *to = more;
    return;
  }
  to->count += more.count;
  if (more.from == 0 || (to->from != 0 && more.from < to->from)) to->from = more.from;
  if (more.to == 0 || (to->to != 0 && more.to > to->to)) to->to = more.to;
}

// losses_take gives one loss and forgets it; false when there is none.
static inline bool losses_take(struct losses *l, kw_lost *out) {
  for (uint32_t reason = 0; reason < LOSSES_REASONS; reason++) {
    for (uint32_t what = 0; what < LOSSES_WHATS; what++) {
      struct loss *of = &l->of[reason][what];
      if (of->count == 0) continue;
      *out = (kw_lost){.reason = reason, .what = what, .count = of->count, .from = of->from, .to = of->to};
      *of = (struct loss){0};
      return true;
    }
  }
  return false;
}

#endif
