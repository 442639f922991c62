// Flushing on a thread of its own: cuptiActivityFlushAll may take long, and must not be called from callbacks.
#include "capture/flusher.h"

#include "capture/attach.h"
#include "capture/cupti.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/wake.h"
#include "capture/windows.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "host/threads.h"

#include <stdatomic.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define PERIOD_MOST (10 * SECOND) // a slow flush doubles the period up to this
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
static bool busy, yielding, yielded, attached; // yielding: in the mode windows, until CUPTI is left
static uint64_t yielded_until, next_try, retry = RETRY_FIRST; // ticks, ticks, ns
static uint64_t attach_due; // tick; it moves on with each return from a yield

void flusher_take(struct flush_report *r) { flush_take(r); }

static void attach_again(void) {
  yielded = false;
  if (!pool_open((uint32_t)env_number(ENV_POOL_BUFFERS), env_number(ENV_POOL_BUFFER_KB) << 10)) return;
  enum attached a = !windows_asked() ? attach(true) : windows_on() ? windows_back() : windows_listen();
  attached = a == ATTACHED;
  flush_began(clock_now());
  busy = a == ATTACHED_BUSY;
  retry = !busy ? RETRY_FIRST : retry < RETRY_MOST / 2 ? retry * 2 : RETRY_MOST;
  next_try = clock_tick() + retry;
}

static void leave(const char *reason) {
  if (!attached) return;
  attached = false;
  if (windows_on() && reason != NULL) {
    windows_let_go(reason);
    return;
  }
  if (windows_on()) windows_end();
  attach_quiesce(reason);
  flush_count_dropped();
  detach(false);
}

// may_return bounds how often the collector's words move the shim in and out of CUPTI: the engine pays for that.
static bool may_return(uint64_t tick) { return attach_due <= tick + ATTACH_AHEAD; }

static void return_after_yield(uint64_t tick) {
  attach_due = (attach_due > tick ? attach_due : tick) + ATTACH_EVERY;
  attach_again();
}

// set_end has the yield end so long after now: to let go may have taken half a second.
static void set_end(void) {
  uint64_t ns = atomic_load(&yield_ns), tick = clock_tick();
  yielded_until = ns > UINT64_MAX - tick ? UINT64_MAX : tick + ns;
}

static void let_go(void) {
  yielding = false;
  if (busy) mode_set(MODE_OFF, "another user of CUPTI is there, and the collector asked to yield to it");
  leave("yielded to another user of CUPTI, as the collector asked");
  yielded = true;
  busy = false;
  retry = RETRY_FIRST;
  set_end();
}

static void yield(void) {
  if (!yielded && (attached || busy)) yielding = true; // else it is longer now; or there is nothing to be had back afterwards
  set_end();
}

// obey does what was asked for since the last turn, and what falls due.
static void obey(void) {
  if (attach_ended()) leave(NULL);
  int asked = atomic_exchange(&command, NOTHING);
  if (asked == YIELD) yield();
  if (yielding && (!attached || !windows_on() || windows_may_go())) let_go();
  uint64_t tick = clock_tick();
  if (yielded && asked == RESUME) yielded_until = tick;
  if (yielding && asked == RESUME) atomic_store(&yield_ns, 0); // at once, when it has let go
  if (yielded && tick >= yielded_until && may_return(tick)) return_after_yield(tick);
  else if (busy && tick >= next_try) attach_again();
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
    if (!attached) flush_done(clock_now()); // nothing is traced: time goes on for the collector, as unknown
    uint64_t turn = attached && windows_on() ? windows_turn() : UINT64_MAX;
    bool flushes = attached && (!windows_on() || windows_flushes());
    tick = clock_tick();
    if (flushes && tick >= next_clock) {
      flush_bracket();
      next_clock = tick + CLOCKS;
    }
    bool hurry = wake_hurried() && tick >= first_flush;
    if (flushes && (hurry || tick >= next_flush)) {
      uint64_t took = flush_now(0, SETTLE_MS);
      if (took > FLUSH_SLOW) period = period * 2 < PERIOD_MOST ? period * 2 : PERIOD_MOST;
      else if (period > standard) period = period / 2 > standard ? period / 2 : standard;
      tick = clock_tick();
      next_flush = tick + period;
    }
    uint64_t due = flushes ? next_flush : yielded && yielded_until < tick + SECOND ? yielded_until : tick + SECOND;
    if (due > turn) due = turn;
    uint64_t wait = due > tick ? due - tick : 0;
    wake_wait_flusher((int)(wait / MS) + 1);
  }
  if (attached && (!windows_on() || atomic_load(&cupti.subscriber) != NULL)) flush_now(1, SETTLE_MS); // the only forced one: it would cut short what is still running
  threads_signal(&finished);
  return NULL;
}

bool flusher_start(bool is_attached, bool is_busy) {
  busy = is_busy;
  attached = is_attached;
  flush_began(clock_now());
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
