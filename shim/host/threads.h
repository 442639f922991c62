// The shim's own threads: no signals, a small stack, a name, and CPUs that are not the engine's pinned ones.
#ifndef KERNHES_THREADS_H
#define KERNHES_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// threads_remember keeps the CPUs that the process has now, for threads that start later.
void threads_remember(void);

bool threads_start(pthread_t *thread, const char *name, void *(*run)(void *));

// threads_cpus reads a list as `0-3,8`; false if it is none.
bool threads_cpus(const char *list, cpu_set_t *set);

// A wakeup is a flag that one thread waits for. It has no descriptor: the engine may close any
// descriptor, and its number then goes to a file of the engine's.
struct wakeup {
  _Atomic uint32_t up;
};

// threads_wait waits until w is signalled, or ms have passed: real time, whatever the clocks say.
// It takes the signal away and returns whether there was one.
bool threads_wait(struct wakeup *w, int ms);

// threads_signal makes a system call only if w was not signalled already. Any thread.
void threads_signal(struct wakeup *w);

#endif
