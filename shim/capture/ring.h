// A ring of events from many threads to one: bounded, lock-free, and never waiting for room.
// An event lies in it as it will lie on the wire (kw_event and what follows).
#ifndef KERNHES_RING_H
#define KERNHES_RING_H

#include "transport/wire.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
  uint8_t *base; // zero wherever nothing is written
  uint64_t size; // bytes, a power of two
  _Alignas(64) _Atomic uint64_t head; // reserved up to here; never wraps
  _Alignas(64) _Atomic uint64_t tail; // taken up to here
  // What had no room since it was last asked for.
  _Alignas(64) _Atomic uint64_t lost;
  _Atomic uint64_t lost_from, lost_to; // unix ns
};

struct ring_loss {
  uint64_t count, from, to;
};

// ring_open maps and prefaults size bytes, a power of two of at least 64 KiB. False if there is no memory.
bool ring_open(struct ring *r, uint64_t size);
void ring_close(struct ring *r);

// ring_reserve gives room for an event of length bytes (a multiple of 8, at most 8 KiB), or NULL when the
// ring is full, which it counts. Whoever got room must commit it: nothing later is taken before.
// Read the clock after this call: then events are in order of time but for a few that overtook each other.
kw_event *ring_reserve(struct ring *r, uint32_t length);
void ring_commit(kw_event *event, uint16_t kind, uint32_t length, uint32_t thread);

// ring_take moves committed events, in the order of their reservation, to `to`; it returns their bytes.
// It stops at the first event that is reserved but not committed, or when the next does not fit room.
size_t ring_take(struct ring *r, uint8_t *to, size_t room);

uint64_t ring_head(struct ring *r);
uint64_t ring_tail(struct ring *r);
uint64_t ring_used(struct ring *r); // bytes
struct ring_loss ring_lost(struct ring *r);

#endif
