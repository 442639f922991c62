// The threads that ever launched, captured or instantiated a graph, until they end; and the captures that are open.
// While one of these threads runs free, CUPTI must not be finalized: a graph whose nodes CUPTI instrumented, launched
// meanwhile, has the GPU write to memory that is gone. Where our wrapper stands before every such call, only a thread that is
// inside one runs free: the others are held when they come.
#ifndef KERNHES_REPLAYERS_H
#define KERNHES_REPLAYERS_H

#include <stdbool.h>
#include <stdint.h>

#define REPLAYERS_MAX 256u

// replayers_note puts the calling thread on the list. Lock-free; a thread that is on it already pays for one comparison.
void replayers_note(void);

// replayers_park says whether the calling thread waits where it can launch nothing; replayers_call, whether it is inside our
// wrapper of such a call.
void replayers_park(bool parked);
void replayers_call(bool inside);

// replayers_free drops threads that have ended, and counts the others that run free; *one: the id of one of them. wrapped: the
// wrapper stands before every call.
uint32_t replayers_free(bool wrapped, uint32_t *one);

// replayers_overflowed: a thread found no room on the list, so nobody knows who launches graphs.
bool replayers_overflowed(void);

// replayers_capture counts an open capture more (begun) or less. Where an end comes whose beginning nobody heard, the
// count stays at 0.
void replayers_capture(bool begun);

// replayers_captured: a launch went into a graph, so a capture is open, whether its beginning was heard or not.
void replayers_captured(void);

uint32_t replayers_capturing(void); // captures that are open, as far as was heard

// replayers_made: a graph was captured or instantiated. replayers_step: a step begins.
void replayers_made(void);
void replayers_step(void);

uint64_t replayers_steps(void); // ever
uint64_t replayers_since(void); // steps since a graph was last captured or instantiated
uint64_t replayers_known(void); // steps since a thread was last put on the list

// replayers_forked forgets everything: a child process has but one thread, and no CUDA.
void replayers_forked(void);

#endif
