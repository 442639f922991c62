// Early ranges lie in a few slots, 260 KiB that are touched only if used. A slot is taken by compare-and-swap and
// freed only by the thread that pushed into it, so nobody waits; a pop looks through all of them, 0.1 µs.
#include "capture/early.h"

#include "host/clock.h"

#include <stdlib.h>
#include <string.h>

enum { FREE, TAKEN, OPEN };

struct slot {
  atomic_int state;
  uint32_t thread, domain, depth, registered, length;
  bool started; // a start/end range
  uint64_t range, time;
  char text[KW_MAX_TEXT];
};

static struct slot slots[EARLY_RANGES];

// take gives a free slot, else the one of this thread's oldest push: among many ranges that stay open, those which matter
// came last. NULL if all are other threads'.
static struct slot *take(void) {
  struct slot *oldest = NULL;
  uint32_t thread = events_thread();
  for (uint32_t i = 0; i < EARLY_RANGES; i++) {
    struct slot *s = &slots[i];
    int free_state = FREE;
    if (atomic_compare_exchange_strong(&s->state, &free_state, TAKEN)) return s;
    if (free_state != OPEN || s->started || s->thread != thread) continue;
    if (oldest == NULL || s->time < oldest->time) oldest = s;
  }
  if (oldest != NULL) atomic_store(&oldest->state, TAKEN);
  return oldest;
}

static void keep(uint64_t range, bool started, uint32_t domain, uint32_t depth, struct text text) {
  struct slot *s = take();
  if (s == NULL) return;
  s->thread = events_thread();
  s->domain = domain;
  s->depth = depth;
  s->registered = text.registered;
  s->length = text.length < KW_MAX_TEXT ? text.length : KW_MAX_TEXT;
  s->started = started;
  s->range = range;
  s->time = clock_now();
  if (text.registered == 0 && s->length > 0) memcpy(s->text, text.bytes, s->length);
  atomic_store_explicit(&s->state, OPEN, memory_order_release);
}

void early_push(uint32_t domain, uint32_t depth, struct text text) { keep(0, false, domain, depth, text); }
void early_start(uint64_t range, uint32_t domain, struct text text) { keep(range, true, domain, 0, text); }

void early_pop(uint32_t domain, uint32_t depth) {
  struct slot *last = NULL;
  uint32_t thread = events_thread();
  for (uint32_t i = 0; i < EARLY_RANGES; i++) {
    struct slot *s = &slots[i];
    if (atomic_load_explicit(&s->state, memory_order_acquire) != OPEN) continue;
    if (s->started || s->thread != thread || s->domain != domain) continue;
    if (depth == KW_DEPTH_UNKNOWN) {
      if (last == NULL || s->time >= last->time) last = s;
    } else if (s->depth > depth) {
      atomic_store(&s->state, FREE);
    }
  }
  if (last != NULL) atomic_store(&last->state, FREE);
}

void early_end(uint64_t range) {
  for (uint32_t i = 0; i < EARLY_RANGES; i++) {
    struct slot *s = &slots[i];
    if (atomic_load_explicit(&s->state, memory_order_acquire) != OPEN || !s->started || s->range != range) continue;
    atomic_store(&s->state, FREE);
    return;
  }
}

static int by_time(const void *a, const void *b) {
  const struct slot *x = &slots[*(const uint32_t *)a], *y = &slots[*(const uint32_t *)b];
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return x->depth < y->depth ? -1 : x->depth > y->depth;
}

void early_replay(void) {
  uint32_t open[EARLY_RANGES], count = 0;
  for (uint32_t i = 0; i < EARLY_RANGES; i++) {
    if (atomic_load_explicit(&slots[i].state, memory_order_acquire) == OPEN) open[count++] = i;
  }
  qsort(open, count, sizeof *open, by_time);
  for (uint32_t i = 0; i < count; i++) {
    struct slot *s = &slots[open[i]];
    struct text text = {.bytes = s->text, .length = s->length, .registered = s->registered};
    if (s->started) events_start(s->time, s->thread, s->range, s->domain, text);
    else events_push(s->time, s->thread, s->domain, s->depth, text);
    atomic_store(&s->state, FREE);
  }
}

void early_forked(uint32_t parent_thread, uint32_t child_thread) {
  for (uint32_t i = 0; i < EARLY_RANGES; i++) {
    struct slot *s = &slots[i];
    bool ours = atomic_load(&s->state) == OPEN && s->thread == parent_thread;
    if (ours) s->thread = child_thread;
    else atomic_store(&s->state, FREE);
  }
}
