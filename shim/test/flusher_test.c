// The flusher against a CUPTI that fails, drops and is slow to say so.
#include "capture/attach.h"
#include "capture/cupti.h"
#include "capture/flusher.h"
#include "capture/pool.h"
#include "capture/wake.h"
#include "check.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic int result;            // of the next flushes
static _Atomic uint32_t last_flag;
static _Atomic uint64_t began, calls; // when the last one was called
static _Atomic size_t dropped;
static _Atomic int drop_result;

// Flushes since the last reset: how each was asked for, and whether kinds were enabled.
static struct {
  atomic_bool forced, enabled;
} flushes[64];
static _Atomic uint32_t flush_count;
static atomic_bool enabled;

static int flush_all(uint32_t flag) {
  uint32_t n = atomic_load(&flush_count);
  if (n < 64) {
    atomic_store(&flushes[n].forced, flag != 0);
    atomic_store(&flushes[n].enabled, atomic_load(&enabled));
    atomic_store(&flush_count, n + 1);
  }
  atomic_store(&last_flag, flag);
  atomic_store(&began, clock_now());
  usleep(2000); // so that its end is another time than its beginning
  atomic_fetch_add(&calls, 1);
  return atomic_load(&result);
}

static int get_dropped(void *context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  *count = atomic_exchange(&dropped, 0);
  return atomic_load(&drop_result);
}

static int timestamp(uint64_t *time) { return *time = 77, CUPTI_OK; }

// flush has one made, and gives what the flusher then says: what an earlier look would have taken is in it, too.
static struct flush_report flush(void) {
  struct flush_report r;
  flusher_take(&r);
  uint64_t before = r.flushes;
  wake_hurry();
  while (flusher_take(&r), r.flushes == before) usleep(500);
  CHECK_EQUAL(r.flushes, before + 1);
  CHECK(r.flushed_new);
  return r;
}

// Linked with --wrap: time passes when the test says so.
static _Atomic uint64_t passed;
uint64_t __real_clock_tick(void);
uint64_t __wrap_clock_tick(void);
uint64_t __wrap_clock_tick(void) { return __real_clock_tick() + atomic_load(&passed); }

static _Atomic int subscribed; // how often

static int subscribe(void **subscriber, cupti_callback callback, void *user) {
  (void)callback, (void)user;
  *subscriber = &subscribed;
  atomic_fetch_add(&subscribed, 1);
  return CUPTI_OK;
}

static int unsubscribe(void *subscriber) { return subscriber == &subscribed ? CUPTI_OK : CUPTI_INVALID_PARAMETER; }
static int enable_callback(uint32_t on, void *s, int domain, uint32_t id) { return (void)on, (void)s, (void)domain, (void)id, CUPTI_OK; }
static int register_callbacks(cupti_request request, cupti_complete complete) { return (void)request, (void)complete, CUPTI_OK; }
static int enable(int which) { return (void)which, atomic_store(&enabled, true), CUPTI_OK; }
static int disable(int which) { return (void)which, atomic_store(&enabled, false), CUPTI_OK; }

static void await(bool is_subscribed) {
  while ((atomic_load(&cupti.subscriber) != NULL) != is_subscribed) usleep(200);
}

// yields: a collector that has the shim go and come again without end is obeyed thirty times in a row, then each 10 s.
static void yields(void) {
  const uint64_t hour = 3600 * 1000000000ull;
  struct flush_report r;
  for (int i = 1; i <= 30; i++) {
    flusher_yield(hour);
    while (flusher_take(&r), !r.flushed_new) usleep(200); // it rests: all that was has come
    flusher_resume();
    await(true);
    CHECK_EQUAL(atomic_load(&subscribed), i);
  }
  flusher_yield(hour);
  await(false);
  flusher_resume();
  for (int i = 0; i < 3; i++) {
    while (flusher_take(&r), !r.flushed_new) flusher_resume(), usleep(200);
  }
  CHECK_EQUAL(atomic_load(&subscribed), 30);
  atomic_fetch_add(&passed, 10 * 1000000000ull);
  flusher_resume();
  await(true);
  CHECK_EQUAL(atomic_load(&subscribed), 31);
  flusher_yield(hour);
  await(false);
}

// lets_end: before CUPTI is left, what still runs comes to its end. Only then a flush is forced, which would cut it short.
static void lets_end(void) {
  uint64_t size;
  uint8_t *lent = pool_lend(&size);
  CHECK(lent != NULL);
  atomic_store(&flush_count, 0);
  flusher_yield(3600 * 1000000000ull);
  while (atomic_load(&flush_count) < 4) usleep(200);
  pool_complete(lent, 0);
  pool_return(pool_completed());
  await(false);
  uint32_t n = atomic_load(&flush_count);
  CHECK(n >= 5 && n < 64);
  for (uint32_t i = 0; i < n; i++) {
    CHECK_EQUAL(flushes[i].forced, i == n - 1);
    CHECK_EQUAL(flushes[i].enabled, i == 0);
  }
}

int main(void) {
  setenv("KERNHES_FLUSH_MS", "10000", 1); // only when it is told to
  setenv("KERNHES_SOFTWARE", "on", 1);
  setenv("KERNHES_HES", "off", 1);
  setenv("KERNHES_POOL_BUFFERS", "1", 1);
  env_load();
  cupti.ActivityFlushAll = flush_all;
  cupti.ActivityGetNumDroppedRecords = get_dropped;
  cupti.GetTimestamp = timestamp;
  cupti.Subscribe = subscribe;
  cupti.Unsubscribe = unsubscribe;
  cupti.EnableCallback = enable_callback;
  cupti.ActivityRegisterCallbacks = register_callbacks;
  cupti.ActivityEnable = enable;
  cupti.ActivityDisable = disable;
  cupti.version = CUPTI_13_0;
  uint64_t start = clock_now();
  CHECK(flusher_start(true, false));

  struct flush_report r = {0};
  uint64_t opened = clock_now();
  while (r.clocks == 0) flusher_take(&r); // the first thing that it does
  CHECK(r.clock.cupti == 77 && start <= r.clock.before && r.clock.before <= r.clock.after && r.clock.after <= clock_now());

  // A flush that succeeds: all that ended before it began has come.
  r = flush();
  uint64_t first = r.flushed;
  CHECK(opened <= first && first <= atomic_load(&began));
  CHECK(r.readable && r.dropped.count == 0 && r.clocks == 0 && r.slow == 0);
  CHECK(r.flush_ns >= 2000000 && r.flush_ns < 60000000000);
  flusher_take(&r);
  CHECK(!r.flushed_new && r.flushed == first);
  CHECK_EQUAL(atomic_load(&last_flag), 0); // what runs is never cut short

  // One that fails: nothing is known to have come since. The log says so.
  int real = dup(STDERR_FILENO), pair[2];
  char line[256] = "";
  CHECK(pipe(pair) == 0 && dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
  log_enable(true);
  r = flush(); // of which there is nothing to say
  atomic_store(&result, 999);
  first = r.flushed;
  r = flush();
  log_enable(false);
  CHECK(dup2(real, STDERR_FILENO) == STDERR_FILENO && close(real) == 0 && close(pair[1]) == 0);
  CHECK(read(pair[0], line, sizeof line - 1) > 0 && close(pair[0]) == 0);
  CHECK(strncmp(line, "kernhes: cuptiActivityFlushAll: 999, ", 37) == 0);
  CHECK_EQUAL(r.flushed, first);
  uint64_t failed = atomic_load(&began);
  r = flush();
  CHECK_EQUAL(r.flushed, first);
  atomic_store(&result, CUPTI_OK);
  atomic_store(&dropped, 5);
  r = flush();
  CHECK(r.flushed > failed && r.flushed <= atomic_load(&began));

  // What was dropped was dropped between the last flush's beginning and now.
  CHECK_EQUAL(r.dropped.count, 5);
  CHECK(r.dropped.from > failed && r.dropped.from < r.flushed && r.dropped.to >= r.flushed && r.dropped.to <= clock_now());
  flusher_take(&r);
  CHECK(r.dropped.count == 0 && r.readable);
  atomic_store(&dropped, 6);
  atomic_store(&drop_result, CUPTI_INVALID_PARAMETER); // it does not say: then the number means nothing
  r = flush();
  CHECK(!r.readable && r.dropped.count == 0);

  yields();
  atomic_fetch_add(&passed, 10 * 1000000000ull);
  flusher_resume();
  await(true);
  lets_end();
  flusher_resume(); // due in 10 s
  atomic_fetch_add(&passed, 10 * 1000000000ull);
  flusher_resume();
  await(true);
  flusher_take(&r);
  for (uint64_t flushes = r.flushes; r.flushes == flushes; flusher_take(&r)) usleep(200); // the one that fell due meanwhile

  // At exit: one more, a forced one, and it is waited for.
  uint64_t before = atomic_load(&calls);
  flusher_finish();
  CHECK_EQUAL(atomic_load(&calls), before + 1);
  CHECK_EQUAL(atomic_load(&last_flag), 1);

  // Once the process exits, CUPTI is left without waiting for what runs.
  uint64_t size;
  CHECK(pool_lend(&size) != NULL);
  attach_exiting();
  atomic_store(&flush_count, 0);
  attach_quiesce("the end");
  CHECK_EQUAL(atomic_load(&flush_count), 2);
  return 0;
}
