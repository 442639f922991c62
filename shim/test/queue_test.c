// The queue of frames: numbers, bytes, what goes at the bound and what stays.
#include "check.h"
#include "transport/queue.h"
#include "transport/wire.h"

#include <string.h>

#define HEAD sizeof(kw_frame)

static struct losses losses;

static struct stake stake(uint64_t from) {
  return (struct stake){.reason = KW_LOST_SHIM_BUFFER, .what = KW_OF_KERNELS, .is = {.count = 1, .from = from, .to = from + 1}};
}

// add appends a frame of 64 bytes and a head; its loss would be one kernel at `from`.
static void add(struct queue *q, uint64_t from) {
  static const uint8_t body[64];
  queue_add(q, KW_KERNELS, body, sizeof body, stake(from));
}

static void bye(struct queue *q) {
  kw_bye b = {.reason = KW_BYE_EXIT};
  queue_add(q, KW_BYE, &b, sizeof b, (struct stake){0});
}

static void check_lost(uint64_t count, uint64_t from, uint64_t to) {
  kw_lost l;
  CHECK(losses_take(&losses, &l));
  CHECK(l.reason == KW_LOST_SHIM_BUFFER && l.what == KW_OF_KERNELS);
  CHECK_EQUAL(l.count, count);
  CHECK_EQUAL(l.from, from);
  CHECK_EQUAL(l.to, to);
  CHECK(!losses_take(&losses, &l));
}

static void nothing_lost(void) {
  kw_lost l;
  CHECK(!losses_take(&losses, &l));
}

// send sends so many frames whole.
static void send(struct queue *q, int count) {
  for (; count > 0; count--) {
    struct frame *f = queue_send(q);
    CHECK(f != NULL && f->sending);
    queue_sent(q, f);
    CHECK(!f->sending);
  }
}

static void numbers(void) {
  struct queue q = {.bound = 1 << 20, .losses = &losses};
  add(&q, 1);
  queue_add(&q, KW_INFO, NULL, 0, (struct stake){0});
  CHECK_EQUAL(q.number, 2);
  CHECK_EQUAL(q.bytes, 2 * HEAD + 64);
  struct frame *f = queue_send(&q);
  kw_frame head;
  memcpy(&head, f->bytes, sizeof head);
  CHECK(head.length == 64 && head.kind == KW_KERNELS && head.flags == 0 && head.number == 1);
  CHECK_EQUAL(f->size, HEAD + 64);
  CHECK(!queue_acknowledge(&q, 1)); // only sent in part yet
  queue_sent(&q, f);
  f = queue_send(&q);
  CHECK_EQUAL(f->number, 2);
  CHECK(queue_send(&q) == NULL);
  add(&q, 3); // while all are sent
  CHECK_EQUAL(queue_send(&q)->number, 3);
  queue_sent(&q, f);
  CHECK(!queue_acknowledge(&q, 3));
  CHECK(queue_acknowledge(&q, 2));
  CHECK(queue_acknowledge(&q, 1)); // an older one again
  CHECK_EQUAL(q.bytes, HEAD + 64);
  CHECK_EQUAL(q.most, 3 * HEAD + 128);
  CHECK_EQUAL(q.base.number, 2);
  CHECK(q.first->number == 3 && q.first == q.last);
  queue_free(&q);
  nothing_lost();
}

// At the bound the oldest go, to the byte, and those that are still to come are sent from where they are.
static void bound(void) {
  struct queue q = {.bound = 3 * (HEAD + 64), .losses = &losses};
  for (uint64_t i = 1; i <= 3; i++) add(&q, i * 10);
  CHECK(!queue_trim(&q)); // exactly full
  add(&q, 40);
  add(&q, 50);
  CHECK(queue_trim(&q));
  CHECK_EQUAL(q.bytes, 3 * (HEAD + 64));
  check_lost(2, 10, 21);
  CHECK(q.first->number == 3 && q.next == q.first && q.base.number == 2);
  send(&q, 1);
  add(&q, 60);
  CHECK(!queue_trim(&q)); // the one that goes was sent
  nothing_lost();
  CHECK(q.husks == 1 && q.first->husk && q.first->bytes == NULL);
  CHECK_EQUAL(q.bytes, 3 * (HEAD + 64));
  add(&q, 70);
  CHECK(queue_trim(&q)); // from behind the one that is remembered
  check_lost(1, 40, 41);
  CHECK_EQUAL(q.first->next->number, 5);
  CHECK_EQUAL(queue_send(&q)->number, 5);
  queue_free(&q);

  // All go: the queue is empty, and goes on.
  q = (struct queue){.bound = 0, .losses = &losses};
  add(&q, 1);
  add(&q, 2);
  CHECK(queue_trim(&q));
  check_lost(2, 1, 3);
  CHECK(q.first == NULL && q.last == NULL && q.next == NULL && q.bytes == 0);
  q.bound = 1 << 20;
  add(&q, 3);
  CHECK(queue_send(&q)->number == 3 && q.first == q.last);
  queue_free(&q);
}

// BYE says what was seen: it stays whatever the bound, and so it is the last that goes out.
static void bye_stays(void) {
  struct queue q = {.bound = 0, .losses = &losses};
  add(&q, 1);
  add(&q, 2);
  bye(&q);
  CHECK(queue_trim(&q));
  check_lost(2, 1, 3);
  CHECK(q.first != NULL && q.first->kind == KW_BYE && q.first == q.last);
  CHECK_EQUAL(q.bytes, HEAD + sizeof(kw_bye));
  CHECK(!queue_trim(&q));
  struct frame *f = queue_send(&q);
  CHECK(f->kind == KW_BYE && f->bytes != NULL);
  queue_sent(&q, f);
  CHECK(!queue_trim(&q));
  CHECK(!q.first->husk && queue_acknowledge(&q, 3) && q.first == NULL);
  queue_free(&q);
}

// A new connection goes on behind what was received.
static void resume(void) {
  struct queue q = {.bound = 1 << 20, .losses = &losses};
  for (uint64_t i = 1; i <= 5; i++) add(&q, i);
  send(&q, 4);
  CHECK(!queue_resume(&q, 3, 2)); // acknowledged what it has not received
  CHECK(!queue_resume(&q, 0, 6)); // received what never was
  CHECK(queue_resume(&q, 1, 3));
  CHECK(q.first->number == 2 && q.sent == 3 && q.base.number == 1);
  CHECK_EQUAL(queue_send(&q)->number, 4); // 4 was sent, and not received
  CHECK(queue_resume(&q, 0, 0));          // a collector that knows nothing
  CHECK_EQUAL(q.sent, 1);                 // it may acknowledge what the snapshot has
  CHECK_EQUAL(queue_send(&q)->number, 2);
  CHECK(queue_acknowledge(&q, 1) && !queue_acknowledge(&q, 2));
  CHECK(!queue_resume(&q, 0, 5) && q.first->number == 2); // 5 was never sent: nothing changes
  CHECK(queue_resume(&q, 1, 4));
  send(&q, 1);
  CHECK(queue_resume(&q, 5, 5));
  CHECK(q.first == NULL && q.bytes == 0 && queue_send(&q) == NULL);
  queue_free(&q);
  // Frames that were dropped unsent lie in the snapshot: a collector that started from it has received up to there.
  q = (struct queue){.bound = 0, .losses = &losses};
  add(&q, 1);
  add(&q, 2);
  CHECK(queue_trim(&q));
  check_lost(2, 1, 3);
  CHECK(!queue_resume(&q, 0, 3) && queue_resume(&q, 0, 2));
  queue_free(&q);
  nothing_lost();
}

// launches: a collector that has had a launch knows of it, one that a frame took with it was never there.
static void add_launch(struct queue *q, uint32_t correlation) {
  kw_launch l[2] = {{.head = {.kind = KW_LAUNCH, .length = sizeof *l}, .correlation = correlation - 1},
                    {.head = {.kind = KW_LAUNCH, .length = sizeof *l}, .correlation = correlation}};
  queue_add(q, KW_EVENTS, l, sizeof l, (struct stake){0});
}

static void launches(void) {
  struct queue q = {.bound = 1 << 20, .losses = &losses};
  kw_pop pop = {.head = {.kind = KW_POP, .length = sizeof pop, .thread = 1}};
  queue_add(&q, KW_EVENTS, &pop, sizeof pop, (struct stake){0});
  send(&q, 1);
  CHECK(queue_acknowledge(&q, 1) && !q.base.launched); // there is none in it
  queue_free(&q);
  q = (struct queue){.bound = 1 << 20, .losses = &losses};
  add_launch(&q, 10);
  add_launch(&q, 20);
  add_launch(&q, 30);
  add(&q, 1);
  send(&q, 2);
  CHECK(queue_acknowledge(&q, 1));
  CHECK(q.base.launched && q.base.correlation == 10);
  q.bound = 0;
  CHECK(queue_trim(&q)); // the second was sent, the third was not
  CHECK_EQUAL(q.base.correlation, 10);
  CHECK(queue_resume(&q, 1, 2)); // it came
  CHECK_EQUAL(q.base.correlation, 20);
  check_lost(1, 1, 2);
  queue_free(&q);

  q = (struct queue){.bound = 0, .losses = &losses};
  add_launch(&q, 10);
  send(&q, 1);
  CHECK(!queue_trim(&q));
  CHECK(queue_resume(&q, 0, 0)); // it did not come
  CHECK(!q.base.launched && q.first == NULL && q.husks == 0);
  queue_free(&q);
}

// A frame whose bytes the link holds keeps them until the link is done.
static void in_flight(void) {
  struct queue q = {.bound = 0, .losses = &losses};
  add(&q, 1);
  struct frame *f = queue_send(&q);
  CHECK(!queue_trim(&q));
  CHECK(f->husk && f->bytes != NULL && q.bytes == 0);
  queue_sent(&q, f);
  CHECK(f->bytes == NULL && q.first == f);
  CHECK(queue_acknowledge(&q, 1));
  CHECK(q.first == NULL && q.husks == 0);
  queue_free(&q);
  nothing_lost();
}

// What is remembered of frames that went is bounded: 65,536.
static void many_husks(void) {
  struct queue q = {.bound = 0, .losses = &losses};
  for (int i = 0; i < 65540; i++) {
    queue_add(&q, KW_FLUSHED, NULL, 0, (struct stake){0});
    send(&q, 1);
  }
  CHECK(!queue_trim(&q));
  CHECK_EQUAL(q.husks, 65536);
  CHECK_EQUAL(q.first->number, 5);
  queue_free(&q);
}

int main(void) {
  numbers();
  bound();
  bye_stays();
  resume();
  launches();
  in_flight();
  many_husks();
  return 0;
}
