#include "capture/flush.h"

#include "capture/cupti.h"
#include "capture/wake.h"
#include "host/clock.h"
#include "host/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static uint64_t before; // when the last flush began, or tracing

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of report; never held while CUPTI is called
static struct flush_report report;

void flush_take(struct flush_report *r) {
  pthread_mutex_lock(&lock);
  *r = report;
  report.flushed_new = false;
  report.clocks = 0;
  report.dropped = (struct loss){0};
  pthread_mutex_unlock(&lock);
}

void flush_bracket(void) {
  kw_clock c = {.before = clock_now()};
  if (cupti_timestamp(&c.cupti) != CUPTI_OK) return;
  c.after = clock_now();
  c.monotonic = clock_monotonic();
  pthread_mutex_lock(&lock);
  report.clock = c;
  report.clocks = 1;
  pthread_mutex_unlock(&lock);
}

void flush_count_dropped(void) {
  if (cupti.v2 && atomic_load(&cupti.subscriber) == NULL) return; // it would be asked as nobody
  size_t count = 0;
  bool readable = cupti_dropped(&count) == CUPTI_OK;
  pthread_mutex_lock(&lock);
  report.readable = readable;
  if (readable && count > 0) {
    if (report.dropped.count == 0) report.dropped.from = before;
    report.dropped.count += count;
    report.dropped.to = clock_now();
  }
  pthread_mutex_unlock(&lock);
}

uint64_t flush_now(uint32_t flags, uint32_t settle_ms) {
  uint64_t began = clock_now(), tick = clock_tick();
  int result = cupti.ActivityFlushAll(flags);
  uint64_t took = clock_tick() - tick;
  if (result != CUPTI_OK) log_line("cuptiActivityFlushAll: %d, %s", result, cupti_result(result));
  struct timespec settle = {.tv_nsec = (long)settle_ms * 1000000};
  nanosleep(&settle, NULL);
  flush_count_dropped();
  pthread_mutex_lock(&lock);
  report.flushes++;
  report.flush_ns += took;
  if (took > FLUSH_SLOW) report.slow++;
  if (result == CUPTI_OK) report.flushed = began;
  report.flushed_new = true;
  report.cpu_ns = clock_cpu();
  pthread_mutex_unlock(&lock);
  before = began;
  wake_sender();
  return took;
}

void flush_done(uint64_t at) {
  pthread_mutex_lock(&lock);
  report.flushed = at;
  report.flushed_new = true;
  pthread_mutex_unlock(&lock);
}

void flush_began(uint64_t at) { before = at; }
