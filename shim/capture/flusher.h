// The flusher: the one thread that asks CUPTI for what it holds, and for all else that may take long.
#ifndef KERNHES_FLUSHER_H
#define KERNHES_FLUSHER_H

#include "capture/flush.h"

#include <stdbool.h>
#include <stdint.h>

// flusher_start begins. attached: CUPTI traces. busy: another subscriber was there, to be tried again every 30 s. Neither:
// nothing is ever traced here, and time only goes on.
bool flusher_start(bool attached, bool busy);

// flusher_take gives what the flushes found since it was last asked.
void flusher_take(struct flush_report *r);

// flusher_yield detaches for ns, or until flusher_resume: another profiler wants CUPTI. Afterwards it is taken back; where
// that profiler still has it, that is tried again and again.
void flusher_yield(uint64_t ns);
void flusher_resume(void);

// flusher_finish has a last, forced flush made and waits for it, at most 200 ms.
void flusher_finish(void);

#endif
