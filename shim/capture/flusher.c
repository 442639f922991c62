// Flushing on a thread of its own: cuptiActivityFlushAll may take long, and must not be called from callbacks.
#include "capture/flusher.h"

#include "capture/attach.h"
#include "capture/cupti.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/wake.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "host/threads.h"

#include <stdatomic.h>
#include <time.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define SLOW SECOND               // a flush longer than this is counted
#define PERIOD_MOST (10 * SECOND) // and doubles the period up to this
#define SETTLE_MS 10              // CUPTI may complete buffers slightly after the flush returns
#define RETRY_FIRST SECOND        // after another subscriber was there
#define RETRY_MOST (30 * SECOND)  // and doubles up to this
#define CLOCKS (60 * SECOND)      // between two brackets of CUPTI's clock
#define ATTACH_EVERY (10 * SECOND)       // the collector may have CUPTI taken back, on average
#define ATTACH_AHEAD (29 * ATTACH_EVERY) // but thirty times in a row at once
#define FINISH_MS 200
#define HES_RACE (5 * SECOND) // HES before 13.4: a flush while NCCL sets up corrupts the heap

enum { NOTHING, YIELD, RESUME };

static struct wakeup finished;
static pthread_t thread;
static atomic_bool finishing;
static atomic_int command;
static _Atomic uint64_t yield_ns; // of the last YIELD
static bool busy, yielded, attached;
static uint64_t yielded_until, next_try, retry = RETRY_FIRST; // ticks, ticks, ns
static uint64_t attach_due; // tick; it moves on with each return from a yield
static uint64_t before; // when the last flush began, or tracing: what is dropped was dropped after that

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of report; never held while CUPTI is called
static struct flusher_report report;

void flusher_take(struct flusher_report *r) {
  pthread_mutex_lock(&lock);
  *r = report;
  report.flushed_new = false;
  report.clocks = 0;
  report.dropped = (struct loss){0};
  pthread_mutex_unlock(&lock);
}

static void bracket(void) {
  kw_clock c = {.before = clock_now()};
  if (cupti_timestamp(&c.cupti) != CUPTI_OK) return;
  c.after = clock_now();
  c.monotonic = clock_monotonic();
  pthread_mutex_lock(&lock);
  report.clock = c;
  report.clocks = 1;
  pthread_mutex_unlock(&lock);
}

// count_dropped asks CUPTI what it dropped since it was last asked.
static void count_dropped(void) {
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

// flush returns how long CUPTI took, ns.
static uint64_t flush(uint32_t flags) {
  uint64_t began = clock_now(), tick = clock_tick();
  int result = cupti.ActivityFlushAll(flags);
  uint64_t took = clock_tick() - tick;
  if (result != CUPTI_OK) log_line("cuptiActivityFlushAll: %d, %s", result, cupti_result(result));
  struct timespec settle = {.tv_nsec = SETTLE_MS * (long)MS};
  nanosleep(&settle, NULL);
  count_dropped();
  pthread_mutex_lock(&lock);
  report.flushes++;
  report.flush_ns += took;
  if (took > SLOW) report.slow++;
  if (result == CUPTI_OK) report.flushed = began;
  report.flushed_new = true;
  report.cpu_ns = clock_cpu();
  pthread_mutex_unlock(&lock);
  before = began;
  wake_sender();
  return took;
}

static void attach_again(void) {
  yielded = false;
  if (!pool_open((uint32_t)env_number(ENV_POOL_BUFFERS), env_number(ENV_POOL_BUFFER_KB) << 10)) return;
  enum attached a = attach(true);
  attached = a == ATTACHED;
  before = clock_now();
  busy = a == ATTACHED_BUSY;
  retry = !busy ? RETRY_FIRST : retry < RETRY_MOST / 2 ? retry * 2 : RETRY_MOST;
  next_try = clock_tick() + retry;
}

static void leave(const char *reason) {
  if (!attached) return;
  attach_quiesce(reason);
  count_dropped();
  detach(false);
  attached = false;
}

// may_return bounds how often the collector's words move the shim in and out of CUPTI: the engine pays for that.
static bool may_return(uint64_t tick) { return attach_due <= tick + ATTACH_AHEAD; }

static void return_after_yield(uint64_t tick) {
  attach_due = (attach_due > tick ? attach_due : tick) + ATTACH_EVERY;
  attach_again();
}

static void let_go(void) {
  if (busy) mode_set(MODE_OFF, "another user of CUPTI is there, and the collector asked to yield to it");
  leave("yielded to another user of CUPTI, as the collector asked");
  yielded = true;
  busy = false;
  retry = RETRY_FIRST;
}

static void yield(void) {
  if (!yielded && (attached || busy)) let_go(); // else it is longer now; or there is nothing to be had back afterwards
  uint64_t ns = atomic_load(&yield_ns), tick = clock_tick(); // to let go may have taken half a second
  yielded_until = ns > UINT64_MAX - tick ? UINT64_MAX : tick + ns;
}

// obey does what was asked for since the last turn, and what falls due.
static void obey(void) {
  if (attach_ended()) leave(NULL);
  int asked = atomic_exchange(&command, NOTHING);
  if (asked == YIELD) yield();
  uint64_t tick = clock_tick();
  if (yielded && asked == RESUME) yielded_until = tick;
  if (yielded && tick >= yielded_until && may_return(tick)) return_after_yield(tick);
  else if (busy && tick >= next_try) attach_again();
}

// rest says, while nothing is traced, that all which was has come: time then goes on for the collector, as unknown.
static void rest(void) {
  pthread_mutex_lock(&lock);
  report.flushed = clock_now();
  report.flushed_new = true;
  pthread_mutex_unlock(&lock);
}

static void *run(void *unused) {
  (void)unused;
  uint64_t standard = env_number(ENV_FLUSH_MS) * MS, period = standard;
  uint64_t tick = clock_tick(), next_flush = tick + period, next_clock = tick;
  next_try = tick + retry;
  uint64_t first_flush = mode_get().mode == MODE_HES && cupti.version < CUPTI_13_4 ? tick + HES_RACE : tick;
  if (next_flush < first_flush) next_flush = first_flush;
  while (!atomic_load(&finishing)) {
    obey();
    tick = clock_tick();
    if (!attached) rest();
    if (attached && tick >= next_clock) {
      bracket();
      next_clock = tick + CLOCKS;
    }
    bool hurry = wake_hurried() && tick >= first_flush;
    if (attached && (hurry || tick >= next_flush)) {
      uint64_t took = flush(0);
      if (took > SLOW) period = period * 2 < PERIOD_MOST ? period * 2 : PERIOD_MOST;
      else if (period > standard) period = period / 2 > standard ? period / 2 : standard;
      tick = clock_tick();
      next_flush = tick + period;
    }
    uint64_t due = attached ? next_flush : yielded && yielded_until < tick + SECOND ? yielded_until : tick + SECOND;
    uint64_t wait = due > tick ? due - tick : 0;
    wake_wait_flusher((int)(wait / MS) + 1);
  }
  if (attached) flush(1); // the only forced one: it would cut short what is still running
  threads_signal(&finished);
  return NULL;
}

bool flusher_start(bool is_attached, bool is_busy) {
  busy = is_busy;
  attached = is_attached;
  before = clock_now();
  return threads_start(&thread, "kernhes-flush", run);
}

static void ask(int what) {
  atomic_store(&command, what);
  wake_flusher();
}

void flusher_yield(uint64_t ns) {
  atomic_store(&yield_ns, ns);
  ask(YIELD);
}

void flusher_resume(void) { ask(RESUME); }

void flusher_finish(void) {
  atomic_store(&finishing, true);
  wake_flusher();
  if (threads_wait(&finished, FINISH_MS)) pthread_join(thread, NULL);
  else log_line("CUPTI did not finish its last flush in %d ms", FINISH_MS);
}
