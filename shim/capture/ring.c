// The ring. A thread reserves by moving head, writes, and commits by storing the event's first eight bytes
// (kind, length, thread), which are zero until then. The taker zeroes what it took before it moves tail.
#include "capture/ring.h"

#include "host/clock.h"

#include <string.h>
#include <sys/mman.h>

#define PAD 0xffffu // kind of the filler before the end: events don't wrap around

bool ring_open(struct ring *r, uint64_t size) {
  void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (base == MAP_FAILED) return false;
  *r = (struct ring){.base = base, .size = size};
  return true;
}

void ring_close(struct ring *r) {
  if (r->base != NULL) munmap(r->base, r->size);
  r->base = NULL;
}

static _Atomic uint64_t *word(struct ring *r, uint64_t at) {
  return (_Atomic uint64_t *)(void *)(r->base + (at & (r->size - 1)));
}

static void commit(_Atomic uint64_t *to, uint16_t kind, uint32_t length, uint32_t thread) {
  atomic_store_explicit(to, kind | (uint64_t)(length & 0xffffu) << 16 | (uint64_t)thread << 32, memory_order_release);
}

static void count_lost(struct ring *r) {
  uint64_t now = clock_now(), none = 0;
  atomic_compare_exchange_strong(&r->lost_from, &none, now);
  atomic_store(&r->lost_to, now);
  atomic_fetch_add(&r->lost, 1);
}

kw_event *ring_reserve(struct ring *r, uint32_t length) {
  uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
  for (;;) {
    uint64_t left = r->size - (head & (r->size - 1));
    uint64_t pad = left < length ? left : 0;
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    if (head + pad + length - tail > r->size) {
      count_lost(r);
      return NULL;
    }
    if (!atomic_compare_exchange_weak_explicit(&r->head, &head, head + pad + length, memory_order_relaxed,
                                               memory_order_relaxed)) {
      continue;
    }
    if (pad > 0) commit(word(r, head), PAD, (uint32_t)pad, 0);
    return (kw_event *)(void *)word(r, head + pad);
  }
}

void ring_commit(kw_event *event, uint16_t kind, uint32_t length, uint32_t thread) {
  commit((_Atomic uint64_t *)(void *)event, kind, length, thread);
}

size_t ring_take(struct ring *r, uint8_t *to, size_t room) {
  size_t taken = 0;
  uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
  for (;;) {
    _Atomic uint64_t *first = word(r, tail);
    uint64_t head = atomic_load_explicit(first, memory_order_acquire);
    if (head == 0) return taken;
    uint32_t length = (uint32_t)(head >> 16) & 0xffffu;
    bool pad = (head & 0xffffu) == PAD;
    if (!pad) {
      if (length > room - taken) return taken;
      memcpy(to + taken, &head, sizeof head);
      memcpy(to + taken + sizeof head, (uint8_t *)first + sizeof head, length - sizeof head);
      taken += length;
      memset((uint8_t *)first + sizeof head, 0, length - sizeof head);
    }
    atomic_store_explicit(first, 0, memory_order_relaxed);
    tail += length;
    atomic_store_explicit(&r->tail, tail, memory_order_release);
  }
}

uint64_t ring_head(struct ring *r) { return atomic_load(&r->head); }
uint64_t ring_tail(struct ring *r) { return atomic_load(&r->tail); }

uint64_t ring_used(struct ring *r) {
  uint64_t tail = ring_tail(r); // before head, so that the difference is never negative
  return ring_head(r) - tail;
}

struct ring_loss ring_lost(struct ring *r) {
  struct ring_loss l = {.count = atomic_exchange(&r->lost, 0)};
  if (l.count == 0) return l;
  l.to = atomic_load(&r->lost_to);
  l.from = atomic_exchange(&r->lost_from, 0);
  return l;
}
