// Posting events from the engine's threads: no lock, no allocation, no system call but clock_gettime,
// and, once a thread, gettid.
#ifndef KERNHES_EVENTS_H
#define KERNHES_EVENTS_H

#include "capture/ring.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_DEPTHS 8u // domains whose depth a thread keeps; of others the depth is not known

// In the ring only, kw_push.length and kw_start.length with this bit: text is the index of a registered text.
#define EVENTS_REGISTERED 0x80000000u

// A self is what a thread remembers. Small: as initial-exec TLS it comes out of the 1.6 KB that glibc keeps
// for libraries that are loaded late.
struct self {
  uint32_t thread; // 0: not asked yet
  bool launching;  // between entry and exit of a launch call
  bool captured;   // a graph node was made since that entry
  bool posted;     // that launch was posted
  bool wrapped;    // in our wrapper of a launch or of a capture
  uint16_t due;    // calls until one is timed; 0: none was made yet
  uint16_t replayer; // its place on the list of replayers, from 1; 0: it is not there
  uint32_t contexts; // which list of contexts its last one is on
  const void *context; // that its last launch named
  uint64_t stepped;    // tick of its last push at the place of steps
  uint32_t depth[EVENTS_DEPTHS];
  uint32_t heard[EVENTS_DEPTHS]; // depth of the innermost open range that was posted
};

extern _Thread_local struct self self __attribute__((tls_model("initial-exec")));

// A text of a range: registered (index, from 1) or the bytes themselves.
struct text {
  const char *bytes;
  uint32_t length;
  uint32_t registered;
};

// What a payload came with.
struct bringing {
  uint32_t site;
  uint64_t range; // of a start or end
  uint32_t domain;
  uint32_t depth; // of a push or pop: of the range, itself counted
};

uint32_t events_thread(void);

// events_open makes the ring (bytes: a power of two) and lets events through; false if there is no memory.
bool events_open(uint64_t bytes);
void events_close(void); // lets nothing more through; the ring stays, since threads may be writing
bool events_on(void);
struct ring *events_ring(void);
uint64_t events_cut(void); // texts longer than KW_MAX_TEXT, ever

void events_push(uint64_t time, uint32_t thread, uint32_t domain, uint32_t depth, struct text text); // time 0: now
void events_pop(uint32_t domain, uint32_t depth);
void events_start(uint64_t time, uint32_t thread, uint64_t range, uint32_t domain, struct text text);
void events_end(uint64_t range);

// events_payload posts a payload; in the ring kw_payload.zero is the index of its schema, which schemas_find gave.
void events_payload(struct bringing to, uint64_t schema, uint32_t index, const void *bytes, uint32_t length, uint32_t size);
void events_launch(uint16_t kind, uint32_t correlation, uint32_t flags); // KW_LAUNCH, KW_CAPTURED
// events_trace: from here on launches are posted, or not. events_traced tells which.
void events_trace(bool on);
bool events_traced(void);

// events_tracing posts KW_TRACING_ON or KW_TRACING_OFF among the events of a thread, which must not post meanwhile.
void events_tracing(uint16_t kind, uint32_t thread, uint64_t window, uint32_t reason);

void events_node_created(uint64_t node, uint32_t flags, uint32_t type);
void events_node_cloned(uint64_t original, uint64_t clone);
void events_graph_forgotten(uint32_t graph);
void events_node_forgotten(uint64_t node);

#endif
