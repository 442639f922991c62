// Ranges that are open: stacks per (thread, domain), and start/end ranges of the process.
#ifndef KERNHES_RANGES_H
#define KERNHES_RANGES_H

#include "transport/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of a (thread, domain), these many of the outermost open ranges are kept, and of the innermost. An engine that leaves
// ranges open pushes its steps and calls ever deeper, above what leaked.
#define RANGES_OUTER 64u
#define RANGES_INNER 64u
#define RANGES_OPEN 65536u       // kept in all, 4 MiB
#define RANGES_THREADS 4096u
#define RANGES_DOMAINS 16u       // domains a thread
#define RANGES_STARTED 1024u     // start/end ranges
#define RANGES_BYTES (16u << 20) // of texts that have no id

struct open {
  uint64_t time;
  uint64_t order;  // of a pushed one: its push among all, from 1
  uint32_t depth;  // of a pushed one: itself counted
  uint64_t range;  // of a start/end range
  uint32_t thread; // of a start/end range: who started it
  uint32_t domain; // likewise
  uint32_t text;   // string id; 0: bytes
  uint32_t length;
  uint8_t *bytes;
  kw_payload *payload; // that came with it; NULL: none
};

struct stack {
  uint32_t domain;
  uint32_t depth;
  uint32_t kept, room;
  struct open *open; // kept ones, by depth
};

struct thread {
  uint32_t id; // 0: this slot is free
  uint32_t count;
  struct stack *stacks;
};

struct ranges {
  struct thread *threads; // open addressing by id
  uint32_t used;          // slots of threads
  struct open *started;
  uint32_t starts;
  uint64_t bytes;
  uint32_t open;   // kept in all stacks
  uint64_t pushes; // so far
};

// Each returns false if something did not fit, or had to make room. depth: after; or KW_DEPTH_UNKNOWN. A known depth heals lost events.
bool ranges_push(struct ranges *r, const kw_push *e);
void ranges_pop(struct ranges *r, const kw_pop *e);
bool ranges_start(struct ranges *r, const kw_start *e);
void ranges_end(struct ranges *r, uint64_t range);

// ranges_attach keeps what came with a push or a start, the first of several; false if it did not fit.
bool ranges_attach(struct ranges *r, const kw_payload *e);

// ranges_popping gives the range that a payload of a pop belongs to, or NULL.
const struct open *ranges_popping(const struct ranges *r, const kw_payload *e);

// ranges_of gives a thread's stacks, or NULL.
const struct thread *ranges_of(const struct ranges *r, uint32_t thread);

// ranges_next gives the innermost open range that was pushed first after an order, over a thread's stacks, and its domain; NULL
// if there is none.
const struct open *ranges_next(const struct thread *t, uint64_t order, uint32_t *domain);

// ranges_innermost gives the innermost open range; NULL if there is none, or it is not kept.
const struct open *ranges_innermost(const struct stack *s);

void ranges_free(struct ranges *r);

#endif
