// The play's clock: what CLOCK_REALTIME says in this process. Other clocks are real.
//
// While a frame is played the clock stands at its time; then it runs, never past the time of the frame that
// comes next. So a launch is never seen later than the kernels that it made, however late the player is.
#ifndef KERNHES_PLAY_CLOCK_H
#define KERNHES_PLAY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t monotonic_now(void); // ns
uint64_t realtime_now(void);  // the real one

// clock_begin has virtual time run from `from` (unix ns), which it is when the monotonic clock says `anchor`,
// at `speed` times real time; 0: as fast as frames come.
void clock_begin(uint64_t from, uint64_t anchor, double speed);
// clock_until lets time run up to t and waits for it; false: *stop was set meanwhile.
bool clock_until(uint64_t t, _Atomic bool *stop);
// clock_release lets time run on in real time, from t or from now if that is later.
void clock_release(uint64_t t);
uint64_t clock_now(void);

#endif
