// Ranges that are open before the first context: no ring exists yet, but a step's range may be among them.
#ifndef KERNHES_EARLY_H
#define KERNHES_EARLY_H

#include "capture/events.h"

#define EARLY_RANGES 64u // in the whole process; of more, a thread remembers its last

void early_push(uint32_t domain, uint32_t depth, struct text text);
void early_pop(uint32_t domain, uint32_t depth); // depth: after; or KW_DEPTH_UNKNOWN
void early_start(uint64_t range, uint32_t domain, struct text text);
void early_end(uint64_t range);

// early_replay posts what is open as events with the times at which they were pushed, and forgets it.
void early_replay(void);

// early_forked makes the calling thread's ranges those of its copy in a child process and forgets all others.
void early_forked(uint32_t parent_thread, uint32_t child_thread);

#endif
