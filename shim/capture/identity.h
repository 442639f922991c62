// Who this process is: the pairs of HELLO.
#ifndef KERNHES_IDENTITY_H
#define KERNHES_IDENTITY_H

#include "capture/mode.h"
#include "transport/bytes.h"

#define IDENTITY_SHIM_VERSION "0.1.0"

// identity_pairs sets all but mode. It calls the CUDA driver (if the process has one) for the devices, so it is not for
// callbacks.
void identity_pairs(struct bytes *pairs);

void identity_mode(struct bytes *pairs, const struct mode_state *mode);

uint64_t identity_session(void); // random, not 0

#endif
