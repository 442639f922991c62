// The sender's order. A buffer is completed, and a flush that covers it is reported, between the sender's two looks at
// the flusher and at the pool: what the flush covers must be sent before the collector is told of the flush.
#include "capture/cupti.h"
#include "capture/events.h"
#include "capture/flusher.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/sender.h"
#include "capture/wake.h"
#include "collector.h"
#include "host/env.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define END 5000u  // of the kernel
#define MARK 6000u // the flush that covers it began then

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct flush_report report; // as the flusher's
static uint8_t *lent;
static atomic_bool armed;
static bool walked;

static int next_record(uint8_t *bytes, size_t valid, void **record) {
  CHECK_EQUAL(valid, 208);
  if (*record != NULL) return CUPTI_END_OF_BUFFER;
  *record = bytes;
  walked = true;
  return CUPTI_OK;
}

// complete is what CUPTI's thread and the flusher do: the buffer comes back, and then its flush has ended.
static void complete(void) {
  if (!atomic_exchange(&armed, false)) return;
  static const uint64_t start = 4000, end = END;
  static const uint32_t kind = CUPTI_KERNEL, correlation = 7;
  memset(lent, 0, 208);
  memcpy(lent, &kind, 4);
  memcpy(lent + 16, &start, 8);
  memcpy(lent + 24, &end, 8);
  memcpy(lent + 92, &correlation, 4);
  pool_complete(lent, 208);
  pthread_mutex_lock(&lock);
  report.flushed = MARK;
  report.flushed_new = true;
  report.readable = true;
  report.dropped = (struct loss){.count = 3, .from = 1, .to = 2};
  report.clock = (kw_clock){.before = 11, .cupti = 12, .after = 13, .monotonic = 14};
  report.clocks = 1;
  pthread_mutex_unlock(&lock);
}

// Linked with --wrap: whichever the sender asks first, the rest happens right after it.
void __wrap_flusher_take(struct flush_report *r);
struct buffer *__real_pool_completed(void);
struct buffer *__wrap_pool_completed(void);

void __wrap_flusher_take(struct flush_report *r) {
  pthread_mutex_lock(&lock);
  *r = report;
  report.flushed_new = false;
  report.clocks = 0;
  report.dropped = (struct loss){0};
  pthread_mutex_unlock(&lock);
  complete();
}

struct buffer *__wrap_pool_completed(void) {
  struct buffer *list = __real_pool_completed();
  complete();
  return list;
}

// What has come, in this order.
static struct {
  int launch, kernel, dropped, clock, covered, bye, count;
} came;

static bool is_launch(const uint8_t *body, uint32_t length) {
  for (uint32_t at = 0; at < length;) {
    const kw_event *e = (const void *)(body + at);
    if (e->kind == KW_LAUNCH && ((const kw_launch *)(const void *)e)->correlation == 7) return true;
    at += e->length;
  }
  return false;
}

static void look(const kw_frame *f, const uint8_t *body) {
  int now = ++came.count;
  if (f->kind == KW_EVENTS && is_launch(body, f->length)) came.launch = now;
  if (f->kind == KW_KERNELS) {
    const kw_kernel *k = (const void *)body;
    CHECK(f->length == sizeof *k && k->end == END && k->correlation == 7);
    CHECK_EQUAL(came.kernel, 0);
    came.kernel = now;
  }
  if (f->kind == KW_LOST) {
    const kw_lost *l = (const void *)body;
    CHECK(l->reason == KW_LOST_CUPTI_DROPPED && l->what == KW_OF_RECORDS && l->count == 3 && l->from == 1 && l->to == 2);
    came.dropped = now;
  }
  if (f->kind == KW_CLOCK) {
    CHECK(((const kw_clock *)(const void *)body)->cupti == 12);
    came.clock = now;
  }
  if (f->kind == KW_FLUSHED) {
    const kw_flushed *w = (const void *)body;
    CHECK(w->flushed == 0 || w->flushed == MARK);
    CHECK_EQUAL(w->flags, w->flushed == MARK ? KW_READABLE : 0);
    if (w->flushed == MARK && came.covered == 0) came.covered = now;
  }
  if (f->kind == KW_BYE) {
    const kw_bye *b = (const void *)body;
    CHECK(b->reason == KW_BYE_EXIT && b->kernels == 1 && b->copies == 0);
    came.bye = now;
  }
}

static void *finish(void *unused) {
  sender_finish();
  return unused;
}

int main(void) {
  static uint8_t body[1 << 20];
  struct collector c;
  uint64_t size;
  pthread_t ending;
  collector_listen(&c);
  setenv("KERNHES_LINGER_MS", "60000", 1);
  env_load();
  cupti.ActivityGetNextRecord = next_record;
  CHECK_EQUAL(sender_unacknowledged(), 0); // before the start
  CHECK(pool_open(2, 4096) && events_open(64u << 10) && (lent = pool_lend(&size)) != NULL);
  mode_set(MODE_SOFTWARE, "%s", "");
  CHECK(sender_start(false, false));
  collector_accept(&c, body, sizeof body);
  events_launch(KW_LAUNCH, 7, 0); // before its record
  atomic_store(&armed, true);
  wake_sender();
  while (came.covered == 0) {
    kw_frame f = collector_frame(&c, body, sizeof body);
    look(&f, body);
  }
  CHECK(came.launch > 0 && came.launch < came.kernel);
  CHECK(came.kernel < came.covered);
  CHECK(came.dropped > 0 && came.dropped < came.covered); // losses, too, are told before the time that they lie in passes
  CHECK(came.clock > 0);
  CHECK(pool_out() == 0 && walked); // the buffer is back
  CHECK(pthread_create(&ending, NULL, finish, NULL) == 0);
  while (came.bye == 0) {
    kw_frame f = collector_frame(&c, body, sizeof body);
    look(&f, body);
  }
  pthread_join(ending, NULL); // once BYE is acknowledged
  CHECK_EQUAL(sender_unacknowledged(), 0);
  CHECK_EQUAL(recv(c.fd, body, 1, 0), 0); // and then the connection ends
  collector_close(&c);
  return 0;
}
