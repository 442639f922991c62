// The sender: the one thread that turns what happened into frames and owns the connection.
#ifndef KERNHES_SENDER_H
#define KERNHES_SENDER_H

#include <stdbool.h>
#include <stdint.h>

// sender_start begins. off: nothing is traced here, so CUPTI is left first. farewell: nor are there ranges to send; it says so
// once and ends.
bool sender_start(bool off, bool farewell);

// sender_finish sends what there is and BYE, and waits until that is acknowledged, at most KERNHES_LINGER_MS.
void sender_finish(void);

// sender_unacknowledged gives the bytes that the collector has not acknowledged, from the engine's call on.
uint64_t sender_unacknowledged(void);

#endif
