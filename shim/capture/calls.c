// Calls. A payload's event lies beside that of its range on the same thread: behind a push, before a pop.
#include "capture/calls.h"

#include "capture/asked.h"
#include "capture/early.h"
#include "capture/edge.h"
#include "capture/meter.h"
#include "capture/mode.h"
#include "capture/schemas.h"

enum { EARLY, LIVE, OFF };
static atomic_int state = EARLY;
#define UNHEARD (1ull << 63) // in the number of a start/end range of ours: it was not posted
static atomic_bool chained;  // another library gives such numbers
static atomic_bool met[ASKED_DOMAINS]; // a range of the domain was posted, though none is wanted
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

// is_first lets the first range of each domain through, so that the collector learns of the domain.
static bool is_first(uint32_t domain) {
  return domain != 0 && domain < ASKED_DOMAINS && !atomic_load_explicit(&met[domain], memory_order_relaxed) &&
         !atomic_exchange(&met[domain], true);
}

static bool is_wanted(uint32_t domain, uint32_t depth) {
  return !mode_is_off() || asked_hears(domain, depth) || is_first(domain);
}

bool calls_hears(uint32_t domain, bool push) {
  int now = mode();
  return now == EARLY || (now == LIVE && is_wanted(domain, push && domain < EVENTS_DEPTHS ? self.depth[domain] + 1 : KW_DEPTH_UNKNOWN));
}

int calls_push(uint32_t domain, struct text text, struct payloads with) {
  uint32_t depth = KW_DEPTH_UNKNOWN;
  if (domain < EVENTS_DEPTHS && self.depth[domain] < KW_DEPTH_UNKNOWN - 1) depth = ++self.depth[domain];
  if (domain < EVENTS_DEPTHS && text.bytes != NULL) self.heard[domain] = depth;
  int now = mode();
  if (now == LIVE) edge_push(domain, depth);
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE && text.bytes != NULL) {
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
  int now = mode();
  bool heard = true; // whose push was, whatever is wanted now
  if (domain < EVENTS_DEPTHS) {
    before = self.depth[domain];
    depth = before > 0 ? --self.depth[domain] : 0;
    heard = before <= self.heard[domain];
    if (self.heard[domain] > depth) self.heard[domain] = depth;
  } else if (now == LIVE) {
    heard = is_wanted(domain, KW_DEPTH_UNKNOWN);
  }
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE && heard) {
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
  bool heard = text.bytes != NULL || theirs != 0; // the end of a range that has a number of theirs cannot be told from others
  if (theirs != 0) atomic_store_explicit(&chained, true, memory_order_relaxed);
  uint64_t range = theirs != 0 ? theirs : (atomic_fetch_add(&ids, 1) + 1) | (heard ? 0 : UNHEARD);
  int now = mode();
  uint64_t began = now == LIVE ? meter_begin() : 0;
  if (now == LIVE && heard) {
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
  bool heard = (range & UNHEARD) == 0 || atomic_load_explicit(&chained, memory_order_relaxed);
  if (now == LIVE && heard) {
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
