// How many threads are inside a callback of CUPTI's: while one is, CUPTI must not be finalized. Striped by thread, so that
// threads that launch at once do not contend for a cache line.
#ifndef KERNHES_INSIDE_H
#define KERNHES_INSIDE_H

#include "capture/events.h"

#include <stdatomic.h>
#include <stdint.h>

#define INSIDE_STRIPES 16u

struct inside {
  _Alignas(64) _Atomic uint32_t threads;
};

extern struct inside inside_stripes[INSIDE_STRIPES];

static inline void inside_enter(void) { atomic_fetch_add(&inside_stripes[events_thread() % INSIDE_STRIPES].threads, 1); }
static inline void inside_leave(void) { atomic_fetch_sub(&inside_stripes[events_thread() % INSIDE_STRIPES].threads, 1); }

uint32_t inside_count(void);

#endif
