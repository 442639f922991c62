// CUPTI's worker: it packs records that have ended into buffers and hands over what is complete.
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <time.h>
#include "state.h"

// Records offered together. least[i] is the earliest time at which one from i on is ready.
typedef struct chunk {
  mock_offer offer;
  uint64_t *ready, *least;
  bool *taken, *kept; // kept: it ran when its kind was disabled, and is recorded all the same
  size_t first; // not yet taken
  void *copy;   // of the records, where the caller does not keep them
  struct chunk *next;
} chunk;

typedef struct { due_record due; chunk *from; size_t index; uint64_t key; } due_entry;

static chunk *chunks, **last_chunk = &chunks;
static uint64_t offered, consumed;
static unsigned wanted;
static uint64_t tickets, done;
static pthread_cond_t work, finished;
static _Atomic bool lacking, holding;

static due_entry *due;
static size_t n_due, room_due;

static void *allocate(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

// copy_of gives records of the caller's a place for as long as they are wanted.
static void *copy_of(mock_offer *offer) {
  size_t bytes = 0;
  for (size_t i = 0; i < offer->count; i++) bytes += offer->records[i].size;
  mock_record *records = allocate(1, offer->count * sizeof *records + bytes);
  uint8_t *to = (uint8_t *)(records + offer->count);
  for (size_t i = 0; i < offer->count; to += records[i++].size) {
    records[i] = offer->records[i];
    memcpy(to, offer->records[i].bytes, records[i].size);
    records[i].bytes = to;
  }
  offer->records = records;
  return records;
}

void offer_records(const mock_offer *given) {
  size_t n = given->count;
  if (!n) return;
  mock_offer own = *given, *offer = &own;
  void *copy = own.instrumented ? copy_of(&own) : NULL;
  chunk *c = allocate(1, sizeof *c);
  *c = (chunk){.offer = *offer, .copy = copy, .ready = allocate(n, 8), .least = allocate(n + 1, 8), .taken = allocate(n, 1), .kept = allocate(n, 1)};
  c->least[n] = UINT64_MAX;
  for (size_t i = n; i-- > 0;) {
    c->ready[i] = offer->at_once ? 0 : record_ready(&offer->records[i]) + (uint64_t)offer->time_shift;
    c->least[i] = c->ready[i] < c->least[i + 1] ? c->ready[i] : c->least[i + 1];
  }
  pthread_mutex_lock(&mock.lock);
  *last_chunk = c;
  last_chunk = &c->next;
  offered += n;
  pthread_cond_signal(&work);
  pthread_mutex_unlock(&mock.lock);
}

// gather collects what is ready, in the order of the file. A forced pass takes what has begun as well.
static void gather(uint64_t now, bool forced) {
  n_due = 0;
  pthread_mutex_lock(&mock.lock);
  chunk *c = chunks;
  pthread_mutex_unlock(&mock.lock);
  while (c) {
    for (size_t i = c->first; i < c->offer.count && (forced || c->least[i] <= now); i++) {
      if (c->taken[i]) continue;
      const mock_record *r = &c->offer.records[i];
      bool ended = c->ready[i] <= now;
      if (!ended && !(forced && record_start(r) + (uint64_t)c->offer.time_shift <= now)) {
        if (mock.fault.hold_back && !forced) return;
        continue;
      }
      if (n_due == room_due) {
        room_due = room_due ? room_due * 2 : 4096;
        if (!(due = realloc(due, room_due * sizeof *due))) abort();
      }
      uint64_t disorder = mock.fault.reordered ? mix(mock.fault.reorder ^ mix(record_start(r) ^ record_ready(r))) % 500000000 : 0;
      due[n_due++] = (due_entry){.due = {r, &c->offer, !ended, c->kept[i]}, .from = c, .index = i,
                                 .key = record_ready(r) + (uint64_t)c->offer.time_shift + disorder};
    }
    pthread_mutex_lock(&mock.lock);
    c = c->next;
    pthread_mutex_unlock(&mock.lock);
  }
}

static int by_key(const void *a, const void *b) {
  const due_entry *x = a, *y = b;
  return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->index > y->index) - (x->index < y->index);
}

static void forget_taken(void) {
  pthread_mutex_lock(&mock.lock);
  for (chunk **at = &chunks; *at;) {
    chunk *c = *at;
    while (c->first < c->offer.count && c->taken[c->first]) c->first++;
    if (c->first < c->offer.count) {
      at = &c->next;
      continue;
    }
    if (!(*at = c->next)) last_chunk = at;
    free(c->ready);
    free(c->least);
    free(c->taken);
    free(c->kept);
    free(c->copy);
    free(c);
  }
  pthread_mutex_unlock(&mock.lock);
}

// pack writes what is ready; false: the client had no buffer for the rest.
static bool pack(bool forced) {
  gather(mock_now(), forced);
  // With disorder, records change places where they end within half a second of each other.
  if (mock.fault.reordered && n_due) qsort(due, n_due, sizeof *due, by_key);
  size_t i = 0;
  while (i < n_due && emit_record(&due[i].due)) due[i].from->taken[due[i].index] = true, i++;
  lacking = i < n_due;
  forget_taken();
  pthread_mutex_lock(&mock.lock);
  consumed += i;
  pthread_mutex_unlock(&mock.lock);
  return i == n_due;
}

// keep_running marks what has begun: it is recorded when it ends, though its kind be disabled meanwhile.
static void keep_running(uint64_t now) {
  pthread_mutex_lock(&mock.lock);
  for (chunk *c = chunks; c; c = c->next)
    for (size_t i = c->first; i < c->offer.count; i++)
      if (!c->taken[i] && record_start(&c->offer.records[i]) + (uint64_t)c->offer.time_shift <= now) c->kept[i] = true;
  pthread_mutex_unlock(&mock.lock);
}

static void pause_ms(uint64_t ms) {
  nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
}

static void finish_tickets(uint64_t upto) {
  pthread_mutex_lock(&mock.lock);
  done = upto;
  pthread_cond_broadcast(&finished);
  pthread_mutex_unlock(&mock.lock);
}

static void one_pass(unsigned wants, uint64_t upto) {
  bool forced = wants & 1u << PASS_FORCED, flush = forced || wants & 1u << PASS_FLUSH;
  if (wants) prefetch_buffer();
  bool late = flush && !forced && mock.fault.late_ms;
  // A flush that finds the client without buffers waits for them, as long as some come back within 200 ms.
  uint64_t before = consumed;
  for (int tries = 0; !pack(forced) && flush && tries < 200; tries++) {
    if (consumed != before) before = consumed, tries = 0;
    deliver_sealed();
    pause_ms(1);
  }
  if (wants & 1u << PASS_KEEP) keep_running(mock_now());
  if (flush) seal_current();
  if (late) {
    finish_tickets(upto);
    pause_ms(mock.fault.late_ms);
  }
  deliver_sealed();
  if (forced) return_spare();
  holding = holding_records();
  if (wants && !late) finish_tickets(upto);
}

static struct timespec after_ms(uint64_t ms) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t ns = (uint64_t)t.tv_nsec + ms * 1000000;
  return (struct timespec){t.tv_sec + (time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

static void *work_on(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&mock.lock);
    if (!wanted && !chunks) pthread_cond_wait(&work, &mock.lock);
    else if (!wanted) {
      struct timespec tick = after_ms(1);
      pthread_cond_timedwait(&work, &mock.lock, &tick);
    }
    unsigned wants = wanted;
    uint64_t upto = tickets;
    wanted = 0;
    pthread_mutex_unlock(&mock.lock);
    one_pass(wants, upto);
  }
  return NULL;
}

static bool started;

void start_worker(void) {
  if (started) return;
  started = true;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&work, &monotonic);
  pthread_cond_init(&finished, &monotonic);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  pthread_t thread;
  if (pthread_create(&thread, NULL, work_on, NULL)) abort();
  pthread_setname_np(thread, "mock-cupti");
  pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void run_pass(pass_kind kind, const char *call) {
  if (mock_inside >= IN_REQUEST) return; // the worker itself: what it is doing will do
  if (!started) return; // an engine that runs on the mock driver attaches in cuInit, before that starts the worker: there is nothing to pass
  struct timespec deadline = after_ms(mock.fault.patience_ms);
  pthread_mutex_lock(&mock.lock);
  uint64_t mine = ++tickets;
  wanted |= 1u << kind;
  pthread_cond_signal(&work);
  while (done < mine)
    if (pthread_cond_timedwait(&finished, &mock.lock, &deadline))
      forbid("%s waits for a buffer callback that does not return: does it take a lock that the caller holds?", call);
  pthread_mutex_unlock(&mock.lock);
}

bool starved(void) { return lacking; }

uint64_t pending_records(void) {
  run_pass(PASS_SETTLE, "the player");
  pthread_mutex_lock(&mock.lock);
  uint64_t n = offered - consumed + holding;
  pthread_mutex_unlock(&mock.lock);
  return n;
}
