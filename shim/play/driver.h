// The process's CUDA driver, as far as CUPTI sees it: the mock, and the library that the driver injects.
#ifndef KERNHES_PLAY_DRIVER_H
#define KERNHES_PLAY_DRIVER_H

#include <stdbool.h>
#include "options.h"
#include "recording.h"

extern const mock_control *cupti; // after load_cupti

// load_cupti loads the mock of the version asked for; false: said why on stderr.
bool load_cupti(const options *, uint32_t recorded_version);
// start_driver loads what CUDA_INJECTION64_PATH names and initialises it; then cuInit returns and contexts are made.
bool start_driver(const recording *);
// unacknowledged asks the client; 0 where it does not say.
uint64_t unacknowledged(void);
// fault_text finds "name=text" in KERNHES_MOCK_FAULT; false: not asked for.
bool fault_text(const char *name, char *text, size_t size);

#endif
