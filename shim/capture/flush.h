// Flushes of CUPTI's buffers, and what is known from them.
#ifndef KERNHES_FLUSH_H
#define KERNHES_FLUSH_H

#include "transport/losses.h"
#include "transport/wire.h"

#include <stdbool.h>
#include <stdint.h>

// What was found since it was last asked.
struct flush_report {
  bool flushed_new;     // a flush has completed
  uint64_t flushed;     // when the last completed flush began, unix ns; 0: none yet
  bool readable;        // CUPTI said how much it dropped
  struct loss dropped;  // by CUPTI
  uint32_t clocks;      // 1 if clock is new
  kw_clock clock;
  uint64_t flushes, flush_ns, slow, cpu_ns; // ever
};

#define FLUSH_SLOW 1000000000ull // ns: a flush longer than this is counted

void flush_take(struct flush_report *r);

// flush_now has CUPTI give back what it holds and returns how long that took, ns. flags: 1: also what still runs.
// Then it waits settle_ms, since CUPTI may complete buffers slightly after the flush returns. Not from a callback.
uint64_t flush_now(uint32_t flags, uint32_t settle_ms);

// flush_done: all that was traced before `at` (unix ns) has come, without a flush of CUPTI's.
void flush_done(uint64_t at);

// flush_began: tracing begins at `at`: what is dropped is dropped after that.
void flush_began(uint64_t at);

// flush_count_dropped asks CUPTI what it dropped since it was last asked.
void flush_count_dropped(void);

// flush_bracket reads CUPTI's clock between two readings of ours.
void flush_bracket(void);

#endif
