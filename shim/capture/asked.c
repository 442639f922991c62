// A place is one word, so that readers need no lock; the domains are bits, which are worked out anew at each change.
#include "capture/asked.h"

#include "transport/wire.h"

#include <stdatomic.h>

#define DEPTH_MOST 0x3fffffu // 22 bits

static struct {
  bool ranges; // asked_ranges was called
  uint64_t domains;
} asked;

static _Atomic uint64_t places[ASKED_PLACES];            // domain << 54 | depth << 32 | thread; 0: free
static _Atomic uint64_t wanted[ASKED_DOMAINS / 64];      // bits of the domains
static _Atomic uint32_t wanted_depth = KW_DEPTH_UNKNOWN; // the greatest that is wanted
static atomic_bool limited;                              // not everything is
static _Atomic uint32_t highest;                         // places that were ever used

static struct place place_of(uint64_t word) {
  return (struct place){.domain = (uint32_t)(word >> 54), .thread = (uint32_t)word, .depth = (uint32_t)(word >> 32) & DEPTH_MOST};
}

size_t asked_places(struct place *to, size_t most) {
  size_t count = 0;
  uint32_t used = atomic_load_explicit(&highest, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++) {
    uint64_t word = atomic_load_explicit(&places[i], memory_order_relaxed);
    if (word != 0 && count < most) to[count++] = place_of(word);
  }
  return count;
}

static void settle(void) {
  uint64_t bits[ASKED_DOMAINS / 64] = {asked.domains | 1};
  struct place of[ASKED_PLACES];
  size_t count = asked_places(of, ASKED_PLACES);
  for (size_t i = 0; i < count; i++) bits[of[i].domain / 64] |= 1ull << of[i].domain % 64;
  for (size_t i = 0; i < ASKED_DOMAINS / 64; i++) atomic_store(&wanted[i], bits[i]);
  atomic_store(&limited, asked.ranges);
}

void asked_ranges(uint64_t depth, uint64_t domains) {
  asked.ranges = true;
  asked.domains = domains;
  atomic_store(&wanted_depth, depth == 0 || depth > DEPTH_MOST ? KW_DEPTH_UNKNOWN : (uint32_t)depth);
  settle();
}

void asked_place(uint64_t domain, uint64_t thread, uint64_t depth) {
  if (domain >= ASKED_DOMAINS || thread > UINT32_MAX || depth > DEPTH_MOST) return;
  uint64_t word = depth == 0 ? 0 : domain << 54 | depth << 32 | thread;
  uint32_t free_one = ASKED_PLACES, i;
  for (i = 0; i < ASKED_PLACES; i++) {
    uint64_t is = atomic_load(&places[i]);
    struct place p = place_of(is);
    if (is != 0 && p.domain == domain && p.thread == thread) break;
    if (is == 0 && free_one == ASKED_PLACES) free_one = i;
  }
  if (i == ASKED_PLACES && (word == 0 || (i = free_one) == ASKED_PLACES)) return;
  atomic_store(&places[i], word);
  if (atomic_load(&highest) <= i) atomic_store(&highest, i + 1);
  settle();
}

void asked_nothing(void) {
  asked.ranges = false;
  for (uint32_t i = 0; i < ASKED_PLACES; i++) atomic_store(&places[i], 0);
  atomic_store(&highest, 0);
  settle();
}

// is_place: thread 0 is any of them.
static bool is_place(uint32_t domain, uint32_t thread, uint32_t depth) {
  uint32_t used = atomic_load_explicit(&highest, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++) {
    uint64_t word = atomic_load_explicit(&places[i], memory_order_relaxed);
    struct place p = place_of(word);
    if (word != 0 && p.domain == domain && p.depth == depth && (p.thread == 0 || thread == 0 || p.thread == thread)) return true;
  }
  return false;
}

bool asked_at(uint32_t domain, uint32_t thread, uint32_t depth) { return is_place(domain, thread, depth); }

bool asked_hears(uint32_t domain, uint32_t depth) {
  if (!atomic_load_explicit(&limited, memory_order_relaxed)) return true;
  if (domain >= ASKED_DOMAINS) return false;
  if ((atomic_load_explicit(&wanted[domain / 64], memory_order_relaxed) >> domain % 64 & 1) == 0) return false;
  if (depth == KW_DEPTH_UNKNOWN || depth <= atomic_load_explicit(&wanted_depth, memory_order_relaxed)) return true;
  return is_place(domain, 0, depth); // a step is heard however deep it is
}
