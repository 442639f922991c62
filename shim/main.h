// How the shim comes, starts and goes.
#ifndef KERNHES_MAIN_H
#define KERNHES_MAIN_H

#include <stdbool.h>

// main_watch_forks has a child process disabled; later calls do nothing.
void main_watch_forks(void);

// main_context: the first context was made (or is taken to be, where that cannot be seen): start what has to run.
void main_context(void);

// main_range: an NVTX range was opened, and main_context has not been called.
void main_range(void);

#endif
