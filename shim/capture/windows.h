// The mode windows: CUPTI is entered for a window that the collector orders, and left completely after it. Only for software
// tracing: HES cannot be turned off, so with it nothing here is used.
//
//   FIRST ──settled──▶ DETACHED ──order, edge──▶ OPEN ──end, edge──▶ DETACHED
//                         ▲                        └─an edge failed─▶ LINGER ──edge──▶ DETACHED
//
// All is called on the flusher's thread unless said otherwise. What a thread of the engine is held for takes place there, too.
#ifndef KERNHES_WINDOWS_H
#define KERNHES_WINDOWS_H

#include "capture/attach.h"

#include <stdbool.h>
#include <stdint.h>

// windows_asked: the setting is windows. Any thread.
bool windows_asked(void);

// windows_listen attaches for the first time, or again, so that captures are heard. On any thread, outside CUDA and CUPTI.
enum attached windows_listen(void);

// windows_on: this process is in the mode windows, and windows_listen was called. Any thread.
bool windows_on(void);

// windows_order: a window from start to end (unix ns), with the collector's id for it. end 0: cancel that window, or with
// id 0 whichever there is. Any thread.
void windows_order(uint64_t start, uint64_t end, uint64_t id);

// windows_turn does what falls due, which may take as long as a thread may be held, and returns the tick of the next turn. A
// thread that comes to an edge wakes the flusher.
uint64_t windows_turn(void);

// windows_flushes tells whether CUPTI holds records that a flush would bring.
bool windows_flushes(void);

// windows_may_go tells whether CUPTI can be given to another client now. It ends the window that is open, so that CUPTI is left
// at an edge first. Where none comes in time it is true all the same. To be called each turn until it is true, then windows_let_go.
bool windows_may_go(void);

// windows_let_go gives CUPTI to another client at once. If it is not left yet and graphs were recorded, it is never finalized
// in this process any more, and no window opens.
void windows_let_go(const char *reason);

// windows_back takes it back.
enum attached windows_back(void);

// windows_end: CUPTI has failed; no window opens any more.
void windows_end(void);

struct windows_counts {
  uint64_t done, left, missed, failed, finalize_ns;
};

struct windows_counts windows_counts(void); // any thread

#endif
