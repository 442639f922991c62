// Clocks: every reading in the shim goes through one call of clock_gettime, which a player of recordings may interpose.
#include "host/clock.h"

#include <time.h>

static uint64_t reading(clockid_t id) {
  struct timespec t;
  if (clock_gettime(id, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_now(void) { return reading(CLOCK_REALTIME); }
uint64_t clock_monotonic(void) { return reading(CLOCK_MONOTONIC); }

// MONOTONIC_RAW, not MONOTONIC: our timeouts must pass in real time also while someone plays recorded time.
uint64_t clock_tick(void) { return reading(CLOCK_MONOTONIC_RAW); }

uint64_t clock_cpu(void) { return reading(CLOCK_THREAD_CPUTIME_ID); }
