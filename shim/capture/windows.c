#include "capture/windows.h"

#include "capture/cupti.h"
#include "capture/drain.h"
#include "capture/edge.h"
#include "capture/events.h"
#include "capture/flush.h"
#include "capture/inside.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/replayers.h"
#include "capture/wake.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define PLACELESS (60 * SECOND)  // without a place of steps CUPTI is left without an edge: nothing was ever recorded
#define OVERDUE (10 * SECOND)    // after a window's end: recording ends without an edge
#define PAUSE_FIRST SECOND       // after an edge that failed
#define PAUSE_MOST (300 * SECOND)
#define PAUSE_SHORT (100 * MS)
#define GO_PATIENCE (2 * SECOND) // to leave CUPTI at an edge, before it is given to another client without
#define STUCK 5                  // failures in a row after which the state says so
#define LOOK (20 * MS)           // between two looks at the clock while an order waits or a window is open
#define CALM (200 * MS)          // else
#define LONGEST (600 * SECOND)   // of a window

enum state { FIRST, DETACHED, OPEN, LINGER, YIELDED, OVER };

struct order {
  uint64_t start, end, id; // end 0: none
};

static atomic_bool on;
static enum state state;
static bool opened;       // CUPTI is entered for the window, and TRACING_ON is still to be posted
static bool unfinalized;  // CUPTI was used since it was last finalized
static bool recorded;     // a window of this attachment was recorded
static bool spoiled;      // CUPTI was given away without an edge, with graphs that it had instrumented: to finalize it later, under
                          // another subscription, ended in a GPU fault (719 on an H200)
static uint64_t go_by;    // tick by which CUPTI is to be given away; 0: it is not asked for
static struct order now;  // waits for its edge, or is open
static uint64_t since;    // tick at which the state was entered
static uint64_t close_by; // tick: the end of the open window, if the clock should go back
static uint64_t next_try, pause_ns;   // tick, ns
static uint32_t failures;             // in a row
static char why[MODE_REASON];         // the last one failed

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of what the collector ordered
static struct order ordered;
static bool cancel;
static uint64_t cancelled; // id; 0: any

static _Atomic uint64_t done, missed, failed, finalize_ns;

bool windows_asked(void) { return strcmp(env_text(ENV_SOFTWARE), "windows") == 0; }
bool windows_on(void) { return atomic_load(&on); }

struct windows_counts windows_counts(void) {
  uint64_t most = env_number(ENV_WINDOWS), were = atomic_load(&done);
  return (struct windows_counts){.done = were,
                                 .left = were < most ? most - were : 0,
                                 .missed = atomic_load(&missed),
                                 .failed = atomic_load(&failed),
                                 .finalize_ns = atomic_load(&finalize_ns)};
}

void windows_order(uint64_t start, uint64_t end, uint64_t id) {
  pthread_mutex_lock(&lock);
  if (end == 0) {
    if (ordered.end != 0 && (id == 0 || id == ordered.id)) ordered = (struct order){0};
    cancel = true;
    cancelled = id;
  } else {
    if (ordered.end != 0 && ordered.id != id) atomic_fetch_add(&missed, 1);
    ordered = (struct order){.start = start, .end = end, .id = id};
  }
  pthread_mutex_unlock(&lock);
  wake_flusher();
}

static void enter_state(enum state to) {
  state = to;
  since = clock_tick();
}

static bool used_up(void) { return spoiled || windows_counts().left == 0; }

static void say_detached(void) {
  if (edge_bypassed()) mode_windows("detached", "no windows: a graph was launched past the wrapper");
  else if (spoiled) mode_windows("detached", "%s", "no windows: CUPTI was given to another client while graphs of this process ran in it");
  else if (used_up()) mode_windows("detached", "no windows: all %llu of this process are used up", (unsigned long long)env_number(ENV_WINDOWS));
  else mode_windows("detached", "%s", "");
}

enum attached windows_listen(void) {
  if (!drain_open()) {
    mode_set(MODE_OFF, "windows need the CUDA driver, which was not found");
    return ATTACHED_NOT;
  }
  events_trace(false);
  edge_enable();
  enum attached a = attach_listen();
  if (a == ATTACHED_NOT) mode_set(MODE_OFF, "no windows: CUPTI cannot be subscribed");
  if (a == ATTACHED_BUSY) mode_set(MODE_OFF, "no windows: another user of CUPTI is there");
  if (a != ATTACHED) return a;
  unfinalized = true;
  enter_state(FIRST);
  mode_windows("attached", "until the engine has captured its graphs");
  atomic_store(&on, true);
  return a;
}

// take_order takes what the collector has ordered: a new end of the window that waits or is open, or the next window.
static void take_order(void) {
  pthread_mutex_lock(&lock);
  if (cancel && now.end != 0 && (cancelled == 0 || cancelled == now.id)) now.end = state == OPEN ? 1 : 0;
  cancel = false;
  bool same = ordered.id == now.id && now.end != 0;
  if (ordered.end != 0 && (same || now.end == 0)) {
    if (ordered.end > ordered.start + LONGEST) ordered.end = ordered.start + LONGEST;
    if (same && now.end != 1) now.end = ordered.end;
    else if (!same) now = ordered;
    ordered = (struct order){0};
  }
  pthread_mutex_unlock(&lock);
}

static void miss(void) {
  if (now.end != 0) atomic_fetch_add(&missed, 1);
  now = (struct order){0};
}

static void fail(void) {
  atomic_fetch_add(&failed, 1);
  failures++;
  pause_ns = failures == 1 ? PAUSE_FIRST : pause_ns < PAUSE_MOST / 2 ? pause_ns * 2 : PAUSE_MOST;
  next_try = clock_tick() + pause_ns;
  mode_windows(failures >= STUCK ? "stuck_attached" : "attached", "CUPTI was not left: %s", why);
}

// open_cupti enters CUPTI for a window: 10 to 14 ms.
static bool open_cupti(void) {
  enum attached a = attach_listen();
  if (a != ATTACHED) {
    snprintf(why, sizeof why, "%s", a == ATTACHED_BUSY ? "another user of CUPTI is there" : "CUPTI cannot be subscribed");
    return false;
  }
  unfinalized = true;
  flush_began(clock_now());
  int result = attach_record();
  if (result == CUPTI_OK) return true;
  snprintf(why, sizeof why, "CUPTI does not record: %d", result);
  return false;
}

// enter begins a window while a thread is held.
static void enter(void) {
  uint32_t thread = edge_caught();
  if (now.end == 0 && !opened) { // cancelled a moment ago
    edge_release();
    return;
  }
  if (!opened && !open_cupti()) {
    edge_release();
    miss();
    if (atomic_load(&cupti.subscriber) != NULL) {
      enter_state(LINGER);
      next_try = 0;
    } else {
      next_try = clock_tick() + PAUSE_FIRST;
    }
    mode_windows(state == LINGER ? "attached" : "detached", "no window: %s", why);
    return;
  }
  opened = true;
  if (!edge_commit()) { // it took too long, and the thread went on: the next at the place finds CUPTI entered
    edge_release();
    return;
  }
  events_tracing(KW_TRACING_ON, thread, now.id, KW_TRACING_ORDERED);
  events_trace(true);
  mode_windows("tracing", "%s", ""); // before it goes on: from here on all its ranges are wanted
  edge_release();
  opened = false;
  recorded = true;
  uint64_t length = now.end > now.start ? now.end - now.start : 0;
  close_by = clock_tick() + 2 * length + 5 * SECOND;
  enter_state(OPEN);
}

// stop ends recording. Launches that are under way are posted or not; no record is waited for after the last flush.
static void stop(uint32_t thread, uint32_t reason) {
  events_tracing(KW_TRACING_OFF, thread, now.id, reason);
  events_trace(false);
  attach_stop();
  now = (struct order){0};
}

// converted waits until the sender has walked all that CUPTI gave back.
static bool converted(void) {
  while (pool_waiting() > 0 && edge_left() > 0) {
    wake_sender();
    usleep(200);
  }
  return pool_waiting() == 0;
}

static const char open_capture[] = "a capture is open";
static const char newcomer[] = "a new thread launches graphs, so others may come";

// known tells whether no new thread has launched a graph for a while: where they can't be held, the next could come at any time.
static bool known(void) { return edge_wrapped() || replayers_known() >= env_number(ENV_SETTLE); }

static const char *gathered(void) {
  static char text[96];
  uint32_t one = 0;
  uint64_t half = edge_left() / 2;
  while (replayers_free(edge_wrapped(), &one) > 0) {
    if (replayers_capturing() > 0) return open_capture;
    if (edge_left() <= half) {
      snprintf(text, sizeof text, "thread %u, which launches graphs, came to no edge", one);
      return text;
    }
    wake_wait_flusher(1);
  }
  if (replayers_overflowed()) return "too many threads launch graphs";
  if (!known()) return newcomer;
  return replayers_capturing() > 0 ? open_capture : NULL;
}

// quiet waits until no thread is in a callback: one that had begun to enter it when we unsubscribed comes within a
// millisecond.
static bool quiet(void) {
  usleep(1000);
  while (inside_count() > 0 && edge_left() > 0) usleep(50);
  return inside_count() == 0;
}

// given_back waits for buffers that CUPTI completes slightly after the flush.
static void given_back(void) {
  for (int i = 0; i < 100 && pool_out() > 0 && edge_left() > 0; i++) {
    wake_sender();
    usleep(200);
  }
}

// part leaves CUPTI, once nothing is recorded and all threads that launch graphs are held; NULL, or why not.
static const char *part(void) {
  static const char late[] = "it took longer than a thread may be held";
  uint32_t one;
  flush_now(0, 0);
  if (!converted()) return late;
  if (!drain_take(edge_left())) return drain_why();
  if (!edge_commit()) return late; // traced graphs must not run without a subscription: nobody goes on before we have left, or listen
  attach_unsubscribe();
  drain_forget(); // their destruction is not told any more
  if (!quiet()) return "a thread stays in a callback of CUPTI";
  if (!drain_wait(edge_left())) return drain_why();
  flush_now(1, 0);
  given_back();
  if (!converted()) return late;
  if (replayers_capturing() > 0) return open_capture;
  if (!drain_wait(edge_left())) return drain_why(); // of a thread that nobody knew
  if (edge_left() == 0) return late;
  if (replayers_free(edge_wrapped(), &one) > 0) return "another thread launches graphs";
  uint64_t began = clock_tick();
  bool gone = attach_finalize();
  atomic_fetch_add(&finalize_ns, clock_tick() - began);
  return gone ? NULL : "another user of CUPTI is there";
}

static void left(void) {
  uint32_t kept = pool_reclaim();
  if (kept > 0) log_line("CUPTI kept %u buffers", kept);
  if (recorded) atomic_fetch_add(&done, 1);
  recorded = unfinalized = opened = false;
  failures = 0;
  flush_done(clock_now());
  enter_state(used_up() ? OVER : DETACHED);
  say_detached();
}

// listen_on subscribes anew after leaving failed; false if another client is there, to which CUPTI is left then.
static bool listen_on(void) { return atomic_load(&cupti.subscriber) != NULL || attach_listen() == ATTACHED; }

// leave ends a window, or an attachment that had none, while a thread is held. Where that fails, recording has ended all the
// same; launches, captures and graphs are heard on, and it is tried again.
static void leave(void) {
  const char *wrong = gathered();
  if (state == OPEN) stop(edge_caught(), now.end == 1 ? KW_TRACING_CANCELLED : KW_TRACING_ORDERED);
  if (wrong == NULL) wrong = part();
  drain_drop(MS);
  bool heard = wrong == NULL || edge_ending() || listen_on(); // before the thread goes on: it may launch, capture and destroy
  if (!heard && recorded) spoiled = true;
  edge_release();
  if (spoiled) {
    enter_state(OVER);
    say_detached();
    return;
  }
  if (wrong == NULL) {
    left();
    return;
  }
  snprintf(why, sizeof why, "%s", wrong);
  enter_state(LINGER);
  if (wrong == open_capture || wrong == newcomer) { // it may pass by itself, soon
    atomic_fetch_add(&failed, 1);
    next_try = clock_tick() + PAUSE_SHORT;
    mode_windows("attached", "CUPTI was not left: %s", why);
  } else {
    fail();
  }
}

// leave_unheld leaves CUPTI without an edge: where nothing was ever recorded, no graph is instrumented.
static void leave_unheld(void) {
  attach_unsubscribe();
  drain_forget();
  usleep(1000);
  for (int i = 0; i < 1000 && inside_count() > 0; i++) usleep(1000);
  flush_now(1, 0);
  if (inside_count() > 0 || !attach_finalize()) return;
  left();
}

// first waits until the engine has settled.
static bool first(void) {
  if (now.end != 0 && clock_now() >= now.start) miss(); // no window opens during warm-up
  if (replayers_since() >= env_number(ENV_SETTLE) && known()) return true;
  if (!edge_placed() && replayers_steps() == 0 && clock_tick() - since > PLACELESS) leave_unheld();
  return false;
}

static bool is_over(void) { return clock_now() >= now.end || clock_tick() >= close_by; }

// open_window tells whether the open window is over. One that comes to no edge ends without.
static bool open_window(void) {
  static uint64_t over_since;
  if (!is_over()) {
    over_since = 0;
    return false;
  }
  uint64_t tick = clock_tick();
  if (over_since == 0) over_since = tick;
  uint64_t patience = OVERDUE > edge_limit() ? OVERDUE : edge_limit();
  if (tick - over_since < patience) return true;
  over_since = 0;
  stop(0, KW_TRACING_OVERDUE);
  enter_state(LINGER);
  next_try = 0;
  mode_windows("attached", "the window ended without an edge");
  return true;
}

// due tells whether the window that waits is to begin; one whose time has gone by is missed.
static bool due(void) {
  if (now.end == 0) return false;
  uint64_t time = clock_now();
  if (edge_bypassed() || used_up() || time >= now.end) {
    if (edge_bypassed() || used_up()) say_detached();
    miss();
    return false;
  }
  return time >= now.start && edge_placed() && clock_tick() >= next_try && go_by == 0;
}

static bool wants_edge(void) {
  switch (state) {
  case FIRST:
    return first();
  case DETACHED:
    // Entered, but its time has gone by: it is left again.
    if (opened && now.end != 0 && clock_now() >= now.end) {
      miss();
      attach_stop();
      enter_state(LINGER);
      next_try = 0;
      opened = false;
      return true;
    }
    return opened || due();
  case OPEN:
    return open_window();
  case LINGER:
    if (now.end != 0 && clock_now() >= now.start) miss();
    if (clock_tick() < next_try) return false;
    if (listen_on() && !drain_busy()) return true;
    snprintf(why, sizeof why, "%s", drain_busy() ? "what was launched runs on and on" : "another user of CUPTI is there");
    fail();
    return false;
  default:
    if (now.end != 0) miss();
    return false;
  }
}

// say_time says each second, while nothing is traced, that all which was has come.
static void say_time(void) {
  static uint64_t last;
  uint64_t tick = clock_tick();
  if ((state != FIRST && state != DETACHED && state != OVER) || tick - last < SECOND) return;
  last = tick;
  flush_done(clock_now());
}

uint64_t windows_turn(void) {
  take_order();
  edge_look();
  if (edge_expired()) {
    edge_release();
    if (state != DETACHED) {
      snprintf(why, sizeof why, "the flusher was not there in time");
      fail();
    }
  }
  if (edge_caught() == 0) {
    if (wants_edge()) edge_want(edge_limit());
    else edge_unwant();
  }
  if (edge_caught() != 0) {
    if (state == DETACHED) enter();
    else leave();
  }
  say_time();
  bool soon = now.end != 0 && clock_now() + SECOND >= now.start;
  return clock_tick() + (soon || state == OPEN || state == LINGER ? LOOK : CALM);
}

// A thread that comes to an edge would wait for a flush, so while one is wanted there is but one a second.
bool windows_flushes(void) {
  static uint64_t last;
  uint64_t tick = clock_tick();
  if (state != OPEN && state != LINGER) return false;
  if ((state == OPEN ? is_over() : tick >= next_try) && tick - last < SECOND) return false;
  last = tick;
  return true;
}

bool windows_may_go(void) {
  uint64_t tick = clock_tick();
  if (go_by == 0) {
    go_by = tick + GO_PATIENCE;
    next_try = 0;
    if (state == OPEN) now.end = 1; // it is over, as if cancelled
  }
  bool entered = opened || state == OPEN || state == LINGER;
  return !entered || tick >= go_by;
}

void windows_let_go(const char *reason) {
  edge_unwant();
  edge_release();
  go_by = 0;
  if (recorded && atomic_load(&cupti.subscriber) != NULL) spoiled = true;
  if (state == OPEN) {
    events_tracing(KW_TRACING_OFF, 0, now.id, KW_TRACING_YIELDED);
    events_trace(false);
  }
  now = (struct order){0};
  opened = false;
  mode_set(MODE_OFF, "%s", reason);
  if (atomic_load(&cupti.subscriber) != NULL) {
    attach_quiesce(NULL);
    detach(false);
    drain_forget();
  }
  enter_state(YIELDED);
}

enum attached windows_back(void) {
  if (spoiled || !unfinalized) {
    enter_state(used_up() ? OVER : DETACHED);
    say_detached();
    return ATTACHED;
  }
  enum attached a = attach_listen();
  if (a != ATTACHED) return a;
  failures = 0;
  next_try = 0;
  enter_state(LINGER);
  mode_windows("attached", "CUPTI is taken back, to be left at the next edge");
  return a;
}

void windows_end(void) {
  edge_unwant();
  edge_release();
  if (state == OPEN) stop(0, KW_TRACING_FAILED);
  enter_state(OVER);
}
