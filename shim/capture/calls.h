// NVTX calls of the engine's threads, into events: depths by domain are the thread's own. No call allocates, locks or waits.
#ifndef KERNHES_CALLS_H
#define KERNHES_CALLS_H

#include "capture/events.h"
#include "capture/nvtx_abi.h"

#define CALLS_PAYLOADS 4u // of one call; more are not looked at

// What came with a call by the payload extension.
struct payloads {
  const nvtx_payload *data; // NULL: nothing
  size_t count;
};

// calls_live: calls go to the ring from here on. calls_off: they go nowhere.
void calls_live(void);
void calls_off(void);

// calls_watch has a function called at each range that is opened before calls_live and calls_off.
void calls_watch(void (*range)(void));

// calls_forked: the calling thread is a child's only one.
void calls_forked(void);

// calls_hears tells whether the next push of this thread in a domain (else start) is posted. If not, its text need not be
// known, and has no bytes (NULL): while nothing is traced, the collector may want few ranges.
bool calls_hears(uint32_t domain, bool push);

// calls_push notes a range and returns its level, from 0, or NVTX_NO_TRACKING; calls_pop its end.
int calls_push(uint32_t domain, struct text text, struct payloads with);
int calls_pop(uint32_t domain, struct payloads with);

// calls_start notes a range of the process; its id is the next library's (theirs), or our own.
uint64_t calls_start(uint64_t theirs, uint32_t domain, struct text text, struct payloads with);
void calls_end(uint64_t range, uint32_t domain, struct payloads with);

// calls_mark notes a mark, which is nothing but its payloads.
void calls_mark(uint32_t domain, struct payloads with);

#endif
