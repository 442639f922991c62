// The shim as NVTX's injection library.
#ifndef KERNHES_NVTX_H
#define KERNHES_NVTX_H

#include <stdbool.h>

// nvtx_next gives a function of the library that KERNHES_NVTX_NEXT names, or NULL; needed: it is logged if it is missing.
void *nvtx_next(const char *function, bool needed);

#endif
