// The flusher against a CUPTI that fails, drops and is slow to say so.
#include "capture/cupti.h"
#include "capture/flusher.h"
#include "capture/wake.h"
#include "check.h"
#include "host/clock.h"
#include "host/env.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int result;            // of the next flushes
static _Atomic uint32_t last_flag;
static _Atomic uint64_t began, calls; // when the last one was called
static _Atomic size_t dropped;
static _Atomic int drop_result;

static int flush_all(uint32_t flag) {
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
static struct flusher_report flush(void) {
  struct flusher_report r;
  flusher_take(&r);
  uint64_t before = r.flushes;
  wake_hurry();
  while (flusher_take(&r), r.flushes == before) usleep(500);
  CHECK_EQUAL(r.flushes, before + 1);
  CHECK(r.flushed_new);
  return r;
}

int main(void) {
  setenv("KERNHES_FLUSH_MS", "10000", 1); // only when it is told to
  env_load();
  cupti.ActivityFlushAll = flush_all;
  cupti.ActivityGetNumDroppedRecords = get_dropped;
  cupti.GetTimestamp = timestamp;
  uint64_t start = clock_now();
  CHECK(flusher_start(false));

  struct flusher_report r = {0};
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

  // One that fails: nothing is known to have come since.
  atomic_store(&result, 999);
  r = flush();
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

  // At exit: one more, a forced one, and it is waited for.
  uint64_t before = atomic_load(&calls);
  flusher_finish();
  CHECK_EQUAL(atomic_load(&calls), before + 1);
  CHECK_EQUAL(atomic_load(&last_flag), 1);
  return 0;
}
