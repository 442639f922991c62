#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"

typedef int (*clock_fn)(clockid_t, struct timespec *);

static _Atomic(clock_fn) real;
static _Atomic bool running;
static uint64_t from, anchor; // fixed before running is set
static double speed;
static _Atomic uint64_t limit; // time never passes it
static _Atomic uint64_t released, released_at; // virtual, monotonic; 0: not yet
static _Atomic uint64_t latest; // time never goes back

static int real_clock(clockid_t id, struct timespec *t) {
  clock_fn f = real;
  return f ? f(id, t) : (int)syscall(SYS_clock_gettime, id, t);
}

__attribute__((constructor)) static void find_real(void) {
  void *symbol = dlsym(RTLD_NEXT, "clock_gettime"); // libc's, which needs no system call
  real = (clock_fn)(uintptr_t)symbol;
}

static uint64_t read_real(clockid_t id) {
  struct timespec t;
  real_clock(id, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t monotonic_now(void) { return read_real(CLOCK_MONOTONIC); }
uint64_t realtime_now(void) { return read_real(CLOCK_REALTIME); }

// running_time is what the clock would say if nothing held it.
static uint64_t running_time(void) {
  uint64_t now = monotonic_now();
  if (released) return released + (now - released_at);
  if (speed == 0) return UINT64_MAX;
  return now < anchor ? from : from + (uint64_t)((double)(now - anchor) * speed);
}

uint64_t clock_now(void) {
  uint64_t t = running_time(), bound = released ? UINT64_MAX : limit, last = latest;
  if (t > bound) t = bound;
  while (last < t && !atomic_compare_exchange_weak(&latest, &last, t)) {}
  return last < t ? t : last;
}

void clock_begin(uint64_t first, uint64_t monotonic, double times) {
  from = first;
  anchor = monotonic;
  speed = times;
  limit = latest = first;
  running = true;
}

bool clock_until(uint64_t t, _Atomic bool *stop) {
  if (t > limit) limit = t;
  while (!*stop) {
    uint64_t now = running_time();
    if (now >= t) return true;
    double wait = (double)(t - now) / speed;
    if (anchor > monotonic_now()) wait += (double)(anchor - monotonic_now());
    uint64_t ns = wait < 20e6 ? (uint64_t)wait + 1 : 20000000; // a signal is seen within 20 ms
    nanosleep(&(struct timespec){0, (long)ns}, NULL);
  }
  return false;
}

void clock_release(uint64_t t) {
  uint64_t now = clock_now();
  released_at = monotonic_now();
  released = t > now ? t : now;
}

// The one that clients and the mock bind to, since the executable comes first in the search.
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t) {
  if (id != CLOCK_REALTIME || !running) return real_clock(id, t);
  uint64_t now = clock_now();
  *t = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
  return 0;
}
