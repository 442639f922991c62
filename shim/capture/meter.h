// What the shim takes of the engine's threads. Of the frequent calls every 251st of a thread is timed: a prime, since they
// come in patterns (a launch's entry and exit), and so few that two readings of a clock cost 0.2 ns a call.
#ifndef KERNHES_METER_H
#define KERNHES_METER_H

#include "capture/events.h"
#include "host/clock.h"

#include <stdatomic.h>
#include <stdint.h>

#define METER_EVERY 251u

struct meter {
  _Atomic uint64_t timed, ns; // calls that were timed, and how long they took in all
};

extern struct meter meter_callbacks, meter_ranges; // CUPTI's launch and graph callbacks; NVTX calls
extern struct meter meter_buffers;                 // CUPTI's buffer callbacks: each is timed

// meter_first gives a thread its place in the count, so that threads that call but once are not all timed.
uint16_t meter_first(void);

// meter_calibrate works out what reading the clock adds to a timed call.
void meter_calibrate(void);

// meter_estimate extrapolates to all calls, ns.
uint64_t meter_estimate(const struct meter *m, uint64_t calls);

void meter_add(struct meter *m, uint64_t began);

// meter_begin gives the tick at which a call began if it is to be timed, else 0.
static inline uint64_t meter_begin(void) {
  if (self.due == 0) self.due = meter_first();
  if (--self.due != 0) return 0;
  self.due = METER_EVERY;
  return clock_tick();
}

static inline void meter_end(struct meter *m, uint64_t began) {
  if (began != 0) meter_add(m, began);
}

#endif
