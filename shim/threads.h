// The shim's own threads: no signals, a small stack, a name, and CPUs that are not the engine's pinned ones.
#ifndef KERNHES_THREADS_H
#define KERNHES_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

// threads_remember keeps the CPUs that the process has now, for threads that start later.
void threads_remember(void);

bool threads_start(pthread_t *thread, const char *name, void *(*run)(void *));

// threads_cpus reads a list as `0-3,8`; false if it is none.
bool threads_cpus(const char *list, cpu_set_t *set);

// threads_wait waits until fd (an eventfd) is signalled, or ms have passed: real time, whatever the clocks say.
// It takes the signal away and returns whether there was one.
bool threads_wait(int fd, int ms);
void threads_signal(int fd);

#endif
