// The flusher: the one thread that asks CUPTI for what it holds, and for all else that may take long.
#ifndef KERNHES_FLUSHER_H
#define KERNHES_FLUSHER_H

#include "transport/losses.h"
#include "transport/wire.h"

#include <stdbool.h>
#include <stdint.h>

// What the flusher found since it was last asked.
struct flusher_report {
  bool flushed_new;     // a flush has completed
  uint64_t flushed;     // when the last completed flush began, unix ns; 0: none yet
  bool readable;        // CUPTI said how much it dropped
  struct loss dropped;  // by CUPTI
  uint32_t clocks;      // 1 if clock is new
  kw_clock clock;
  uint64_t flushes, flush_ns, slow, cpu_ns; // ever
};

// flusher_start begins. attached: CUPTI traces. busy: another subscriber was there, to be tried again every 30 s. Neither:
// nothing is ever traced here, and time only goes on.
bool flusher_start(bool attached, bool busy);

void flusher_take(struct flusher_report *r);

// flusher_yield detaches for ns, or until flusher_resume: another profiler wants CUPTI. Afterwards it is taken back; where
// that profiler still has it, that is tried again and again.
void flusher_yield(uint64_t ns);
void flusher_resume(void);

// flusher_finish has a last, forced flush made and waits for it, at most 200 ms.
void flusher_finish(void);

#endif
