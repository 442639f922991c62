// Edges: the moments at which threads of the engine are held, outside CUDA and CUPTI, so that CUPTI can be entered or left.
// An edge begins when a thread comes to the place where steps are pushed. Every other thread that launches graphs is held
// when it comes to that place or to our wrapper of a graph launch.
//
//   OPEN ──a thread comes to the place, and an edge is wanted──▶ HOLDING ──edge_commit──▶ COMMITTED
//    ▲                                                             │ │ deadline               │
//    └──────────────────────── edge_release ◀──────────────────────┘ └──▶ EXPIRED ──▶ ────────┘
#ifndef KERNHES_EDGE_H
#define KERNHES_EDGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// edge_enable: from here on pushes at the place are noted, and launches through the wrapper.
void edge_enable(void);

// edge_look takes over the places of steps that the collector has named. Those that it named last are kept, whatever happens
// to the collector. edge_placed: there is one. On one thread.
void edge_look(void);
bool edge_placed(void);

// edge_want has the next thread at the place held, limit ns at most; edge_unwant no longer.
void edge_want(uint64_t limit);
void edge_unwant(void);

// edge_caught gives the thread that began the edge that goes on; 0: none, or the deadline has passed.
uint32_t edge_caught(void);

// edge_expired: an edge has ended by its deadline; another begins only after edge_release.
bool edge_expired(void);

// edge_left gives how many ns are left until the deadline, of a committed edge too; 0: it has passed, or the process exits.
uint64_t edge_left(void);

bool edge_ending(void); // edge_exiting was called

// edge_commit: from here on who is held stays until edge_release, whatever the deadline. False if it has passed.
bool edge_commit(void);

void edge_release(void);

// edge_limit gives how long a thread may be held, ns: the larger of 50 ms and three median steps, at most 1 s.
uint64_t edge_limit(void);

uint64_t edge_holds(void);   // edges that held a thread, ever
uint64_t edge_held_ns(void); // how long the thread that began each was held, in all

// edge_exiting: the process ends. Nobody is held any more, but by an edge that is committed.
void edge_exiting(void);
void edge_forked(void);

extern atomic_bool edge_on;

void edge_come(uint32_t domain, uint32_t depth);

// edge_push is called at each push, before it is posted.
static inline void edge_push(uint32_t domain, uint32_t depth) {
  if (atomic_load_explicit(&edge_on, memory_order_acquire)) edge_come(domain, depth);
}

// edge_wrap: our wrapper stands before launches of graphs. edge_launched is called in CUPTI's callback of such a launch;
// edge_bypassed tells whether one came past the wrapper, so that threads cannot be held there.
void edge_wrap(void);
bool edge_wrapped(void);
void edge_launched(void);
bool edge_bypassed(void);

// edge_enter is called before a graph is launched or a capture begins or ends, outside CUDA: it waits while an edge goes on.
// edge_leave is called after it.
void edge_enter(void);
void edge_leave(void);

#endif
