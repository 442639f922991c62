#include "capture/edge.h"

#include "capture/asked.h"
#include "capture/events.h"
#include "capture/replayers.h"
#include "capture/wake.h"
#include "host/clock.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define LIMIT_LEAST (50 * MS)
#define LIMIT_MOST SECOND
#define INTERVALS 32u // the last ones, of which the median is taken

enum { OPEN, HOLDING, COMMITTED, EXPIRED };
#define PHASE 3u // bits of the word that are the phase; the others count the edges

atomic_bool edge_on;

static _Atomic uint64_t places[ASKED_PLACES]; // domain << 54 | depth << 32 | thread, as many as there are
static _Atomic uint32_t placed;

static _Atomic uint32_t word; // whoever is held waits until it changes
static _Atomic uint64_t limit, until; // ns; tick
static _Atomic uint32_t caught;
static atomic_bool wanted, exiting, wrapping, bypassed;
static _Atomic uint64_t holds, held_ns;
static _Atomic uint32_t intervals[INTERVALS]; // µs; 0: none yet

static uint32_t phase_of(uint32_t w) { return w & PHASE; }
static uint32_t with(uint32_t w, uint32_t phase) { return (w & ~PHASE) | phase; }

static void wake_all(void) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }

// change moves on from a phase; false if it is not that of the word any more.
static bool change(uint32_t from, uint32_t to) {
  uint32_t w = atomic_load(&word);
  while (phase_of(w) == from) {
    if (!atomic_compare_exchange_weak(&word, &w, to == OPEN ? with(w, OPEN) + PHASE + 1 : with(w, to))) continue;
    wake_all();
    return true;
  }
  return false;
}

void edge_enable(void) { atomic_store(&edge_on, true); }

void edge_look(void) {
  struct place of[ASKED_PLACES];
  size_t count = asked_places(of, ASKED_PLACES);
  if (count == 0) return; // another collector, which has named none yet
  for (size_t i = 0; i < count; i++) {
    atomic_store(&places[i], (uint64_t)of[i].domain << 54 | (uint64_t)of[i].depth << 32 | of[i].thread);
  }
  atomic_store(&placed, (uint32_t)count);
}

bool edge_placed(void) { return atomic_load(&placed) > 0; }

static bool is_place(uint32_t domain, uint32_t depth) {
  uint32_t count = atomic_load_explicit(&placed, memory_order_acquire);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t at = atomic_load_explicit(&places[i], memory_order_relaxed);
    uint32_t thread = (uint32_t)at;
    if (at >> 32 == ((uint64_t)domain << 22 | depth) && (thread == 0 || thread == events_thread())) return true;
  }
  return false;
}

void edge_want(uint64_t ns) {
  atomic_store(&limit, ns);
  atomic_store(&wanted, true);
}

void edge_unwant(void) { atomic_store(&wanted, false); }

uint32_t edge_caught(void) { return phase_of(atomic_load(&word)) == HOLDING ? atomic_load(&caught) : 0; }

uint64_t edge_left(void) {
  uint64_t now = clock_tick(), end = atomic_load(&until);
  uint32_t phase = phase_of(atomic_load(&word));
  return atomic_load(&exiting) || (phase != HOLDING && phase != COMMITTED) || now >= end ? 0 : end - now;
}

bool edge_ending(void) { return atomic_load(&exiting); }

bool edge_commit(void) { return !atomic_load(&exiting) && change(HOLDING, COMMITTED); }

bool edge_expired(void) { return phase_of(atomic_load(&word)) == EXPIRED; }

void edge_release(void) {
  edge_unwant();
  atomic_store(&caught, 0); // before another edge may begin
  if (!change(HOLDING, OPEN) && !change(COMMITTED, OPEN)) change(EXPIRED, OPEN);
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

uint64_t edge_limit(void) {
  uint32_t us[INTERVALS], count = 0;
  for (uint32_t i = 0; i < INTERVALS; i++) {
    uint32_t interval = atomic_load_explicit(&intervals[i], memory_order_relaxed);
    if (interval != 0) us[count++] = interval;
  }
  qsort(us, count, sizeof *us, ascending);
  uint64_t three = count == 0 ? 0 : 3000ull * us[count / 2];
  return three < LIMIT_LEAST ? LIMIT_LEAST : three > LIMIT_MOST ? LIMIT_MOST : three;
}

uint64_t edge_holds(void) { return atomic_load(&holds); }
uint64_t edge_held_ns(void) { return atomic_load(&held_ns); }

// note_step measures from one push at the place to the next of the same thread.
static void note_step(void) {
  replayers_step();
  uint64_t now = clock_tick(), turn = replayers_steps();
  uint64_t us = self.stepped == 0 ? 0 : (now - self.stepped) / 1000;
  self.stepped = now;
  if (us == 0) return;
  atomic_store_explicit(&intervals[turn % INTERVALS], us < UINT32_MAX ? (uint32_t)us : UINT32_MAX, memory_order_relaxed);
}

static void sleep_on(uint32_t w, uint64_t ns) {
  struct timespec most = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, w, &most, NULL, 0);
}

// park waits while the edge of w goes on. Past its deadline it ends the edge itself, unless that is committed: then CUPTI
// is being finalized, and to launch would be the end of the process.
static void park(uint32_t w) {
  const uint32_t edge = w & ~PHASE;
  replayers_park(true);
  wake_flusher();
  for (w = atomic_load(&word); (w & ~PHASE) == edge && (phase_of(w) == HOLDING || phase_of(w) == COMMITTED); w = atomic_load(&word)) {
    uint64_t now = clock_tick(), end = atomic_load(&until);
    bool over = now >= end || atomic_load(&exiting);
    if (phase_of(w) == COMMITTED) sleep_on(w, SECOND);
    else if (!over) sleep_on(w, end - now);
    else if (change(HOLDING, EXPIRED)) wake_flusher();
  }
  replayers_park(false);
}

// begin makes this thread the one that began an edge; false if there is one.
static bool begin(uint32_t *w) {
  *w = atomic_load(&word);
  if (phase_of(*w) != OPEN || !atomic_load(&wanted) || atomic_load(&exiting)) return false;
  atomic_store(&until, clock_tick() + atomic_load(&limit));
  if (!atomic_compare_exchange_strong(&word, w, with(*w, HOLDING))) return false;
  *w = with(*w, HOLDING);
  atomic_store(&caught, events_thread());
  return true;
}

// hold waits if an edge goes on; true if it did.
static bool hold(void) {
  uint32_t w = atomic_load(&word);
  if (phase_of(w) != HOLDING && phase_of(w) != COMMITTED) return false;
  replayers_call(false);
  park(w);
  return true;
}

void edge_come(uint32_t domain, uint32_t depth) {
  uint32_t w;
  if (!is_place(domain, depth)) return;
  note_step();
  if (atomic_load_explicit(&wanted, memory_order_acquire) && replayers_capturing() == 0 && begin(&w)) {
    uint64_t began = clock_tick();
    park(w);
    atomic_fetch_add(&held_ns, clock_tick() - began);
    atomic_fetch_add(&holds, 1);
    return;
  }
  if (replayers_capturing() == 0) hold();
}

void edge_enter(void) {
  self.wrapped = true;
  replayers_note();
  do replayers_call(true); // before the look at the edge: either the call is seen there, or the edge here
  while (hold());
}

void edge_leave(void) {
  replayers_call(false);
  self.wrapped = false;
}

void edge_wrap(void) { atomic_store(&wrapping, true); }
bool edge_wrapped(void) { return atomic_load(&wrapping) && !atomic_load(&bypassed); }

void edge_launched(void) {
  if (!self.wrapped && atomic_load_explicit(&wrapping, memory_order_relaxed)) atomic_store(&bypassed, true);
}

bool edge_bypassed(void) { return atomic_load(&bypassed); }

void edge_exiting(void) {
  atomic_store(&exiting, true);
  edge_unwant();
  if (phase_of(atomic_load(&word)) == HOLDING) change(HOLDING, EXPIRED);
}

void edge_forked(void) {
  atomic_store(&word, OPEN);
  atomic_store(&wanted, false);
  atomic_store(&edge_on, false);
}
