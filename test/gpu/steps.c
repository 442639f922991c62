// Ranges for Python through ctypes: CDLL lets go of the GIL for a call, PyDLL keeps it.
#include <pthread.h>

#include "../../shim/probe/nvtx.h"

void steps_push(const char *text) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, nvtx_open);
  nvtx_push(text);
}

void steps_pop(void) { nvtx_pop(); }
