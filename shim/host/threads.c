#include "host/threads.h"

#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000u // ns

#define STACK (256u << 10) // bytes; the name resolver wants more than the 64 KiB that the rest would do with

static cpu_set_t cpus;
static bool remembered;

void threads_remember(void) { remembered = sched_getaffinity(0, sizeof cpus, &cpus) == 0; }

bool threads_cpus(const char *list, cpu_set_t *set) {
  CPU_ZERO(set);
  for (const char *at = list; *at != 0;) {
    char *end;
    unsigned long first = strtoul(at, &end, 10), last = first;
    if (end == at) return false;
    at = end;
    if (*at == '-') {
      last = strtoul(at + 1, &end, 10);
      if (end == at + 1) return false;
      at = end;
    }
    if (last < first || last >= CPU_SETSIZE) return false;
    for (unsigned long cpu = first; cpu <= last; cpu++) CPU_SET(cpu, set);
    if (*at == ',' && at[1] != 0) at++;
    else if (*at != 0) return false;
  }
  return CPU_COUNT(set) > 0;
}

struct beginning {
  const char *name;
  void *(*run)(void *);
};

static void *begin(void *argument) {
  struct beginning b = *(struct beginning *)argument;
  free(argument);
  pthread_setname_np(pthread_self(), b.name);
  cpu_set_t set;
  const char *list = env_text(ENV_CPUS);
  if (*list != 0 && !threads_cpus(list, &set)) log_line("KERNHES_CPUS=%s: not a list of CPUs", list);
  else if (*list != 0) sched_setaffinity(0, sizeof set, &set);
  else if (remembered) sched_setaffinity(0, sizeof cpus, &cpus);
  return b.run(NULL);
}

bool threads_start(pthread_t *thread, const char *name, void *(*run)(void *)) {
  struct beginning *b = malloc(sizeof *b);
  pthread_attr_t attributes;
  if (b == NULL || pthread_attr_init(&attributes) != 0) {
    free(b);
    return false;
  }
  *b = (struct beginning){.name = name, .run = run};
  size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
  pthread_attr_setstacksize(&attributes, least + STACK);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // a thread inherits the mask: no signal ever lands in ours
  bool started = pthread_create(thread, &attributes, begin, b) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (!started) free(b);
  return started;
}

// sleep_on waits while w is not signalled, at most ns; it may return early.
static void sleep_on(struct wakeup *w, uint64_t ns) {
  struct timespec most = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
  long result = syscall(SYS_futex, &w->up, FUTEX_WAIT_PRIVATE, 0, &most, NULL, 0);
  if (result == 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) return;
  struct timespec beat = {.tv_nsec = 1000000}; // no futex here: look once a millisecond
  nanosleep(&beat, NULL);
}

bool threads_wait(struct wakeup *w, int ms) {
  uint64_t until = clock_tick() + (uint64_t)ms * 1000000u;
  while (atomic_exchange(&w->up, 0) == 0) {
    uint64_t now = clock_tick();
    if (now >= until) return false;
    sleep_on(w, until - now);
  }
  return true;
}

void threads_signal(struct wakeup *w) {
  if (atomic_exchange(&w->up, 1) == 0) syscall(SYS_futex, &w->up, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
