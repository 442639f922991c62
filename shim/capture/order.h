// Events of several threads, out of the ring, in order of time.
#ifndef KERNHES_ORDER_H
#define KERNHES_ORDER_H

#include "capture/ring.h"
#include "transport/bytes.h"

struct order {
  struct ring *ring;
  struct bytes events; // taken, not given yet
  struct bytes list;   // struct ordered
};

typedef void (*order_fn)(void *to, const kw_event *event);

// order_round takes what the ring has and gives what can no longer be overtaken, never an event before an
// earlier one of its own thread. It returns true if all events are given that were reserved before the call;
// otherwise call it again.
bool order_round(struct order *o, order_fn give, void *to);

// order_held gives the bytes that are taken and not given.
uint64_t order_held(const struct order *o);
void order_free(struct order *o);

#endif
