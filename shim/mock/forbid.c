// What CUPTI's documentation forbids ends the process, with one line that says what was done.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "state.h"

_Thread_local int mock_inside = IN_NONE;

mock_state mock = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const where[] = {"", "an API callback", "a resource callback", "a state callback",
                                    "the buffer request callback", "the buffer complete callback"};

_Noreturn void forbid(const char *format, ...) {
  char text[400];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  fprintf(stderr, "mock cupti: FORBIDDEN: %s\n", text);
  fflush(stderr);
  abort();
}

// A forked child has a copy of CUPTI's state, but none of its threads.
void check_process(const char *call) {
  static _Atomic int pid;
  int self = getpid(), none = 0;
  if (!atomic_compare_exchange_strong(&pid, &none, self) && none != self)
    forbid("%s in a forked child of the traced process", call);
}

// Between cuptiFinalize and the next subscription the client has no business here: what it calls would start CUPTI anew.
void check_alive(const char *call) {
  if (mock.finalized) forbid("%s after cuptiFinalize and before a new subscription", call);
}

void check_outside(const char *call) {
  if (mock_inside >= IN_RESOURCE) forbid("%s inside %s", call, where[mock_inside]);
}

void check_generation(const char *call, int generation) {
  if (mock.generation && mock.generation != generation)
    forbid("%s (V%d) with a subscriber made by %s (V%d)", call, generation,
           mock.generation == 1 ? "cuptiSubscribe" : "cuptiSubscribe_v2", mock.generation);
  if (mock.registered && mock.registered != generation)
    forbid("%s (V%d) with buffer callbacks registered by V%d", call, generation, mock.registered);
}

void check_forced(void) {
  if (mock.forced_early)
    forbid("cuptiActivityFlushAll(1) while tracing goes on: it cuts running kernels for good; use it at exit, or with all kinds disabled");
}

uint64_t mock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
