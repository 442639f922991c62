// The ring and the ordering behind it: many threads, full, wrapped around, overtaken.
#include "capture/events.h"
#include "capture/order.h"
#include "check.h"

#include <pthread.h>
#include <string.h>

#define PRODUCERS 4
#define EACH 20000u

static struct ring ring;
static atomic_bool go;

// produce posts EACH pops whose depth counts up, of lengths that differ, until each has found room.
static void *produce(void *number) {
  uint32_t thread = (uint32_t)(uintptr_t)number;
  while (!atomic_load(&go)) continue;
  for (uint32_t i = 0; i < EACH;) {
    uint32_t length = (uint32_t)sizeof(kw_push) + (i % 7) * 8;
    kw_push *e = (void *)ring_reserve(&ring, length);
    if (e == NULL) continue;
    e->head.time = i;
    e->depth = i++;
    memset(e + 1, (int)thread, length - sizeof *e);
    ring_commit(&e->head, KW_PUSH, length, thread);
  }
  return NULL;
}

static void several_producers(void) {
  pthread_t threads[PRODUCERS];
  uint32_t next[PRODUCERS + 1] = {0}, seen = 0;
  static uint8_t taken[1 << 16];
  CHECK(ring_open(&ring, 64u << 10));
  for (uintptr_t i = 1; i <= PRODUCERS; i++) CHECK(pthread_create(&threads[i - 1], NULL, produce, (void *)i) == 0);
  atomic_store(&go, true);
  while (seen < PRODUCERS * EACH) {
    size_t n = ring_take(&ring, taken, sizeof taken);
    for (size_t at = 0; at < n;) {
      const kw_push *e = (const void *)(taken + at);
      CHECK_EQUAL(e->head.kind, KW_PUSH);
      CHECK(e->head.thread >= 1 && e->head.thread <= PRODUCERS);
      CHECK_EQUAL(e->depth, next[e->head.thread]++); // each thread's in its order, none twice, none lost
      for (size_t i = sizeof *e; i < e->head.length; i++) CHECK_EQUAL(taken[at + i], e->head.thread);
      at += e->head.length;
      seen++;
    }
  }
  for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
  CHECK_EQUAL(ring_used(&ring), 0);
  ring_close(&ring);
}

static void full(void) {
  CHECK(ring_open(&ring, 64u << 10));
  uint32_t fitted = 0;
  for (kw_event *e; (e = ring_reserve(&ring, 32)) != NULL; fitted++) ring_commit(e, KW_POP, 32, 1);
  CHECK_EQUAL(fitted, (64u << 10) / 32);
  CHECK(ring_reserve(&ring, 32) == NULL);
  struct ring_loss lost = ring_lost(&ring);
  CHECK_EQUAL(lost.count, 2);
  CHECK(lost.from != 0 && lost.to >= lost.from);
  CHECK_EQUAL(ring_lost(&ring).count, 0);
  uint8_t some[320];
  CHECK_EQUAL(ring_take(&ring, some, sizeof some), 320);
  kw_event *e = ring_reserve(&ring, 312); // there is room again
  CHECK(e != NULL);
  CHECK(ring_reserve(&ring, 16) == NULL);
  ring_close(&ring);
}

// uncommitted: what lies behind an event that is still being written is not taken before it.
static void uncommitted(void) {
  uint8_t taken[256];
  CHECK(ring_open(&ring, 64u << 10));
  kw_event *first = ring_reserve(&ring, 24), *second = ring_reserve(&ring, 24);
  ring_commit(second, KW_POP, 24, 2);
  CHECK_EQUAL(ring_take(&ring, taken, sizeof taken), 0);
  ring_commit(first, KW_POP, 24, 1);
  CHECK_EQUAL(ring_take(&ring, taken, sizeof taken), 48);
  CHECK_EQUAL(((kw_event *)(void *)taken)->thread, 1);
  ring_close(&ring);
}

static uint64_t given[16];
static uint32_t given_threads[16], count;

static void give(void *to, const kw_event *e) {
  (void)to;
  CHECK(count < 16);
  given_threads[count] = e->thread;
  given[count++] = e->time;
}

static void post(uint64_t time, uint32_t thread) {
  kw_event *e = ring_reserve(&ring, 24);
  e->time = time;
  ring_commit(e, KW_POP, 24, thread);
}

static void ordered(void) {
  struct order order = {.ring = &ring};
  CHECK(ring_open(&ring, 64u << 10));
  post(30, 1);
  post(10, 2);
  post(20, 3);
  post(25, 1); // its own thread's clock went back: it stays behind 30
  CHECK(order_round(&order, give, NULL));
  CHECK_EQUAL(count, 4);
  const uint64_t want[] = {10, 20, 30, 25};
  for (int i = 0; i < 4; i++) CHECK_EQUAL(given[i], want[i]);

  // An event from the future waits one round for those that it overtook, and no longer.
  count = 0;
  post(UINT64_MAX - 1, 1);
  CHECK(!order_round(&order, give, NULL));
  CHECK_EQUAL(count, 0);
  post(40, 2);
  CHECK(order_round(&order, give, NULL));
  CHECK_EQUAL(count, 2);
  CHECK_EQUAL(given_threads[0], 2);

  // Nothing is given while an earlier reservation is not committed.
  count = 0;
  kw_event *open = ring_reserve(&ring, 24);
  post(60, 2);
  CHECK(!order_round(&order, give, NULL));
  CHECK_EQUAL(count, 0);
  open->time = 50;
  ring_commit(open, KW_POP, 24, 1);
  CHECK(order_round(&order, give, NULL));
  CHECK_EQUAL(count, 2);
  CHECK_EQUAL(given[0], 50);
  order_free(&order);
  ring_close(&ring);
}

static void long_texts(void) {
  static char text[KW_MAX_TEXT + 100];
  memset(text, 'x', sizeof text);
  memcpy(text + KW_MAX_TEXT - 1, "\xc3\xa4", 2); // a character across the bound
  CHECK(events_open(64u << 10));
  events_push(0, 7, 0, 1, (struct text){.bytes = text, .length = sizeof text});
  static uint8_t taken[1 << 14];
  CHECK(ring_take(events_ring(), taken, sizeof taken) > 0);
  const kw_push *e = (const void *)taken;
  CHECK_EQUAL(e->length, KW_MAX_TEXT - 1);
  CHECK_EQUAL(events_cut(), 1);
  events_close();
  events_pop(0, 0);
  CHECK_EQUAL(ring_take(events_ring(), taken, sizeof taken), 0);
}

int main(void) {
  several_producers();
  full();
  uncommitted();
  ordered();
  long_texts();
  return 0;
}
