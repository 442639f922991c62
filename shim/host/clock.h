// Reading clocks. All times are nanoseconds.
#ifndef KERNHES_CLOCK_H
#define KERNHES_CLOCK_H

#include <stdint.h>

uint64_t clock_now(void);       // CLOCK_REALTIME: unix time, what goes on the wire
uint64_t clock_monotonic(void); // CLOCK_MONOTONIC: goes on the wire beside clock_now, to show its steps
uint64_t clock_tick(void);      // for our own timeouts; never on the wire
uint64_t clock_cpu(void);       // CPU time of the calling thread

#endif
