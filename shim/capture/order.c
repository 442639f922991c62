// Ordering. Who reserves reads the clock afterwards; so whatever is reserved after time t, as the taker read
// it, has a time of t or later, and all taken events up to t can be given once none before them is missing.
// An event with a later time waits for the next round, and no longer, whatever the clock does.
#include "capture/order.h"

#include "host/clock.h"

#define TAKE (256u << 10) // bytes a turn

struct ordered {
  uint64_t time;
  uint32_t thread;
  uint32_t at;  // in events
  uint32_t old; // it waited for this round already
};

// list_taken needs no memory: take_all has made room.
static void list_taken(struct order *o, size_t from) {
  for (size_t at = from; at < o->events.used;) {
    const kw_event *e = (const void *)(o->events.data + at);
    struct ordered item = {.time = e->time, .thread = e->thread, .at = (uint32_t)at};
    bytes_put(&o->list, &item, sizeof item);
    at += e->length;
  }
}

// take_all moves to our memory what is committed; without memory it stays in the ring.
static void take_all(struct order *o) {
  while (o->events.used < 64u << 20) {
    size_t from = o->events.used;
    uint8_t *to = bytes_room(&o->events, TAKE);
    if (to == NULL || bytes_room(&o->list, TAKE / sizeof(kw_event) * sizeof(struct ordered)) == NULL) return;
    size_t taken = ring_take(o->ring, to, TAKE);
    o->events.used += taken;
    list_taken(o, from);
    if (taken == 0) return;
  }
}

// sort is an insertion sort: the list is in order but for neighbours.
static void sort(struct ordered *list, size_t count) {
  for (size_t i = 1; i < count; i++) {
    struct ordered item = list[i];
    size_t to = i;
    while (to > 0 && list[to - 1].time > item.time && list[to - 1].thread != item.thread) {
      list[to] = list[to - 1];
      to--;
    }
    list[to] = item;
  }
}

// gather copies the events of these items to a run of bytes of their own; false without memory.
static bool gather(struct order *o, const struct ordered *list, size_t count, struct bytes *to) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += ((const kw_event *)(const void *)(o->events.data + list[i].at))->length;
  if (bytes_room(to, bytes) == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    const kw_event *e = (const void *)(o->events.data + list[i].at);
    bytes_put(to, e, e->length);
  }
  return true;
}

// keep leaves the items from `from` on, and their bytes, for the next round. Without memory the bytes of those that were
// given stay between them.
static void keep(struct order *o, size_t from) {
  struct ordered *list = (void *)o->list.data;
  size_t count = o->list.used / sizeof *list;
  if (from == count) {
    o->list.used = o->events.used = 0;
    return;
  }
  struct bytes events = {0};
  bool gathered = gather(o, list + from, count - from, &events);
  for (size_t i = from, at = 0; i < count; i++) {
    struct ordered *item = &list[i - from];
    uint32_t length = ((const kw_event *)(const void *)(o->events.data + list[i].at))->length;
    *item = list[i];
    item->old = 1;
    if (gathered) item->at = (uint32_t)at;
    at += length;
  }
  o->list.used = (count - from) * sizeof *list;
  if (!gathered) return;
  bytes_free(&o->events);
  o->events = events;
}

bool order_round(struct order *o, order_fn give, void *to) {
  uint64_t now = clock_now(), head = ring_head(o->ring);
  take_all(o);
  bool complete = ring_tail(o->ring) >= head;
  struct ordered *list = (void *)o->list.data;
  size_t count = o->list.used / sizeof *list, given = 0;
  sort(list, count);
  for (; given < count && complete && (list[given].time <= now || list[given].old); given++) {
    give(to, (const void *)(o->events.data + list[given].at));
  }
  keep(o, given);
  return complete && o->list.used == 0;
}

uint64_t order_held(const struct order *o) { return o->events.used; }

void order_free(struct order *o) {
  bytes_free(&o->events);
  bytes_free(&o->list);
}
