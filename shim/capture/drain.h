// Waiting until the GPU has done what was launched: in the contexts that launches named, on a thread of its own, since that
// wait has no bound.
#ifndef KERNHES_DRAIN_H
#define KERNHES_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define DRAIN_CONTEXTS 64u

// drain_open finds the driver and starts the thread; false if there is none.
bool drain_open(void);

// drain_note: a launch named this context. In CUPTI's callback, on any thread.
void drain_note(const void *context);

// drain_destroyed: that context is about to go.
void drain_destroyed(const void *context);

// drain_forget forgets all contexts: nobody tells of their destruction any more.
void drain_forget(void);

// drain_take makes the contexts current on the drain's thread: one that is destroyed later can then no longer be mistaken
// for another. It waits at most ns. False: not in that time, or an earlier drain has not ended, or there were too many.
bool drain_take(uint64_t ns);

// drain_wait waits until what was launched in them has ended, at most ns. False: it has not, a capture is open, or the
// driver reports an error. It may be called again: then it waits for the first of the contexts only.
bool drain_wait(uint64_t ns);

// drain_drop lets go of the contexts.
void drain_drop(uint64_t ns);

bool drain_busy(void); // an earlier wait has not ended

const char *drain_why(void); // why the last one was false

#endif
