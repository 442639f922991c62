// Calls. A payload's event lies beside that of its range on the same thread: behind a push, before a pop.
#include "capture/calls.h"

#include "capture/early.h"
#include "capture/meter.h"
#include "capture/schemas.h"

enum { EARLY, LIVE, OFF };
static atomic_int state = EARLY;
static _Atomic(void (*)(void)) watcher; // of early ranges; NULL: nobody

void calls_live(void) {
  atomic_store(&state, LIVE);
  early_replay(); // a push in between may be sent before the ranges around it: its depth says where it belongs
}

void calls_off(void) { atomic_store(&state, OFF); }

void calls_forked(void) {
  uint32_t parent = self.thread;
  self.thread = 0;
  if (parent != 0) early_forked(parent, events_thread());
  else early_forked(0, 0);
}

void calls_watch(void (*range)(void)) { atomic_store_explicit(&watcher, range, memory_order_release); }

// show tells the watcher of a range that was opened.
static void show(void) {
  void (*range)(void) = atomic_load_explicit(&watcher, memory_order_acquire);
  if (range != NULL) range();
}

static int mode(void) { return atomic_load_explicit(&state, memory_order_acquire); }

// bring posts payloads whose schemas are known. Those of calls before the first context are not kept.
static void bring(struct payloads with, struct bringing to) {
  if (with.data == NULL) return;
  for (size_t i = 0; i < with.count && i < CALLS_PAYLOADS; i++) {
    const nvtx_payload *p = &with.data[i];
    uint32_t schema = schemas_find(to.domain, p->schema);
    if (schema == 0) continue;
    uint32_t length = p->bytes == NULL ? 0 : schemas_room(schema, p->size);
    uint32_t size = p->bytes == NULL ? 0 : p->size < UINT32_MAX ? (uint32_t)p->size : length;
    events_payload(to, p->schema, schema, p->bytes, length, size);
  }
}

int calls_push(uint32_t domain, struct text text, struct payloads with) {
  uint32_t depth = KW_DEPTH_UNKNOWN;
  if (domain < EVENTS_DEPTHS && self.depth[domain] < KW_DEPTH_UNKNOWN - 1) depth = ++self.depth[domain];
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE) {
    events_push(0, events_thread(), domain, depth, text);
    bring(with, (struct bringing){.site = KW_PUSH, .domain = domain, .depth = depth});
  } else if (now == EARLY) {
    early_push(domain, depth, text), show();
  }
  meter_end(&meter_ranges, began);
  return depth == KW_DEPTH_UNKNOWN ? NVTX_NO_TRACKING : (int)depth - 1;
}

int calls_pop(uint32_t domain, struct payloads with) {
  uint32_t depth = KW_DEPTH_UNKNOWN, before = KW_DEPTH_UNKNOWN;
  if (domain < EVENTS_DEPTHS) {
    before = self.depth[domain];
    depth = before > 0 ? --self.depth[domain] : 0;
  }
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE) {
    if (before > 0) bring(with, (struct bringing){.site = KW_POP, .domain = domain, .depth = before});
    events_pop(domain, depth);
  } else if (now == EARLY) {
    early_pop(domain, depth);
  }
  meter_end(&meter_ranges, began);
  return depth == KW_DEPTH_UNKNOWN ? NVTX_NO_TRACKING : (int)depth;
}

uint64_t calls_start(uint64_t theirs, uint32_t domain, struct text text, struct payloads with) {
  static _Atomic uint64_t ids;
  uint64_t range = theirs != 0 ? theirs : atomic_fetch_add(&ids, 1) + 1;
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE) {
    events_start(0, events_thread(), range, domain, text);
    bring(with, (struct bringing){.site = KW_START, .range = range, .domain = domain, .depth = KW_DEPTH_UNKNOWN});
  } else if (now == EARLY) {
    early_start(range, domain, text), show();
  }
  meter_end(&meter_ranges, began);
  return range;
}

void calls_end(uint64_t range, uint32_t domain, struct payloads with) {
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE) {
    bring(with, (struct bringing){.site = KW_END, .range = range, .domain = domain, .depth = KW_DEPTH_UNKNOWN});
    events_end(range);
  } else if (now == EARLY) {
    early_end(range);
  }
  meter_end(&meter_ranges, began);
}

void calls_mark(uint32_t domain, struct payloads with) {
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE) bring(with, (struct bringing){.site = KW_SITE_MARK, .domain = domain, .depth = KW_DEPTH_UNKNOWN});
  meter_end(&meter_ranges, began);
}
