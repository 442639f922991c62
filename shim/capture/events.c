// Events from the engine's threads into the ring, as they will lie on the wire.
#include "capture/events.h"

#include "host/clock.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local struct self self __attribute__((tls_model("initial-exec")));

static struct ring ring;
static atomic_bool on;
static atomic_bool traced = true;
static _Atomic uint64_t cut;

uint32_t events_thread(void) {
  if (self.thread == 0) self.thread = (uint32_t)syscall(SYS_gettid);
  return self.thread;
}

bool events_open(uint64_t bytes) {
  if (ring.base == NULL && !ring_open(&ring, bytes)) return false;
  atomic_store(&on, true);
  return true;
}

void events_close(void) { atomic_store(&on, false); }
bool events_on(void) { return atomic_load_explicit(&on, memory_order_acquire); }
struct ring *events_ring(void) { return &ring; }
uint64_t events_cut(void) { return atomic_load(&cut); }

// begin reserves an event of `bytes` and writes its time: read after the reservation, so that the ring's
// order is that of time but for threads that overtook each other in between.
static void *begin(uint32_t bytes, uint64_t time) {
  if (!events_on()) return NULL;
  kw_event *e = ring_reserve(&ring, bytes);
  if (e != NULL) e->time = time != 0 ? time : clock_now();
  return e;
}

static uint32_t text_bytes(struct text *t) {
  if (t->registered != 0) return 0;
  if (t->length > KW_MAX_TEXT) {
    t->length = KW_MAX_TEXT;
    while (t->length > 0 && ((uint8_t)t->bytes[t->length] & 0xc0u) == 0x80) t->length--; // never inside a character
    atomic_fetch_add_explicit(&cut, 1, memory_order_relaxed);
  }
  return (t->length + 7u) & ~7u;
}

void events_push(uint64_t time, uint32_t thread, uint32_t domain, uint32_t depth, struct text text) {
  uint32_t bytes = (uint32_t)sizeof(kw_push) + text_bytes(&text);
  kw_push *e = begin(bytes, time);
  if (e == NULL) return;
  e->domain = domain;
  e->depth = depth;
  e->text = text.registered;
  e->length = text.registered != 0 ? EVENTS_REGISTERED : text.length;
  if (text.registered == 0 && text.length > 0) memcpy(e + 1, text.bytes, text.length);
  ring_commit(&e->head, KW_PUSH, bytes, thread);
}

void events_pop(uint32_t domain, uint32_t depth) {
  kw_pop *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->domain = domain;
  e->depth = depth;
  ring_commit(&e->head, KW_POP, sizeof *e, events_thread());
}

void events_start(uint64_t time, uint32_t thread, uint64_t range, uint32_t domain, struct text text) {
  uint32_t bytes = (uint32_t)sizeof(kw_start) + text_bytes(&text);
  kw_start *e = begin(bytes, time);
  if (e == NULL) return;
  e->range = range;
  e->domain = domain;
  e->text = text.registered;
  e->length = text.registered != 0 ? EVENTS_REGISTERED : text.length;
  if (text.registered == 0 && text.length > 0) memcpy(e + 1, text.bytes, text.length);
  ring_commit(&e->head, KW_START, bytes, thread);
}

void events_end(uint64_t range) {
  kw_end *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->range = range;
  ring_commit(&e->head, KW_END, sizeof *e, events_thread());
}

void events_payload(struct bringing to, uint64_t schema, uint32_t index, const void *from, uint32_t length, uint32_t size) {
  uint32_t bytes = (uint32_t)sizeof(kw_payload) + ((length + 7u) & ~7u);
  kw_payload *e = begin(bytes, 0);
  if (e == NULL) return;
  e->range = to.range;
  e->domain = to.domain;
  e->depth = to.depth;
  e->schema = schema;
  e->length = length;
  e->size = size;
  e->site = to.site;
  e->zero = index;
  if (length > 0) memcpy(e + 1, from, length);
  ring_commit(&e->head, KW_PAYLOAD, bytes, events_thread());
}

void events_launch(uint16_t kind, uint32_t correlation, uint32_t flags) {
  kw_launch *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->correlation = correlation;
  e->flags = flags;
  ring_commit(&e->head, kind, sizeof *e, events_thread());
}

void events_trace(bool trace) { atomic_store(&traced, trace); }
bool events_traced(void) { return atomic_load_explicit(&traced, memory_order_acquire); }

void events_tracing(uint16_t kind, uint32_t thread, uint64_t window, uint32_t reason) {
  kw_tracing *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->window = window;
  e->reason = reason;
  ring_commit(&e->head, kind, sizeof *e, thread);
}

void events_node_created(uint64_t node, uint32_t flags, uint32_t type) {
  kw_node_created *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->node = node;
  e->flags = flags;
  e->type = type;
  ring_commit(&e->head, KW_NODE_CREATED, sizeof *e, events_thread());
}

void events_node_cloned(uint64_t original, uint64_t clone) {
  kw_node_cloned *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->original = original;
  e->clone = clone;
  ring_commit(&e->head, KW_NODE_CLONED, sizeof *e, events_thread());
}

void events_graph_forgotten(uint32_t graph) {
  kw_graph_forgotten *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->graph = graph;
  ring_commit(&e->head, KW_GRAPH_FORGOTTEN, sizeof *e, events_thread());
}

void events_node_forgotten(uint64_t node) {
  kw_node_forgotten *e = begin(sizeof *e, 0);
  if (e == NULL) return;
  e->node = node;
  ring_commit(&e->head, KW_NODE_FORGOTTEN, sizeof *e, events_thread());
}
