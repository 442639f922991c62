#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "baton.h"
#include "clock.h"
#include "driver.h"
#include "nvtx.h"
#include "play.h"
#include "sequence.h"
#include "takeover.h"

enum { UNACKNOWLEDGED = 32 << 20, FRAMES_AT_ONCE = 100, NS_EACH = 10000 };

// A collector may wait for the end of a kernel, or of a step, that does not come while the clock is held. So when nothing was
// acknowledged for this long, the play goes on for 64 frames; but never near the 128 MiB at which a client drops.
enum { PATIENCE_NS = 50000000 };

// The state of the one play. Whoever holds the baton owns it.
static const recording *rec;
static const options *opt;
static _Atomic bool *stopping;
static size_t at;          // next frame
static uint64_t round_no, seq_period, played, began;
static int64_t time_shift;
static uint32_t correlation_shift, correlation_step;
static size_t kill_at, takeover_at; // frames; SIZE_MAX: never
static mock_launch *open_launches; // by recorded thread: the one whose captured frame is still to come
static uint64_t *rounds_begun; // by recorded thread
static outcome *result;

static void pause_ns(long ns) { nanosleep(&(struct timespec){0, ns}, NULL); }

// keep_pace holds the clock, flat out, for a client that is behind.
static void keep_pace(void) {
  if (opt->speed != 0) return;
  // 10 us a frame: a ring of 4 MiB for events of some 100 bytes then lasts a client's stall of 400 ms.
  if (++played % FRAMES_AT_ONCE == 0) {
    uint64_t due = began + played * NS_EACH, now = monotonic_now();
    if (now < due) pause_ns((long)(due - now));
  }
  bool said = opt->quiet;
  uint64_t since = monotonic_now(), moved = since, before = unacknowledged();
  while (!*stopping && (cupti->starved() || (played % 64 == 0 && unacknowledged() > UNACKNOWLEDGED))) {
    pause_ns(500000);
    uint64_t now = monotonic_now(), waits = unacknowledged();
    if (waits < before) moved = now;
    else if (!cupti->starved() && now - moved > PATIENCE_NS && waits < 3ull * UNACKNOWLEDGED) return;
    before = waits;
    if (said || now - since < 5000000000u) continue;
    fprintf(stderr, "kernhes-play: waiting: %llu bytes unacknowledged%s\n", (unsigned long long)waits,
            cupti->starved() ? ", no activity buffer free" : "");
    said = true;
  }
}

static void offer(size_t first, size_t n, bool at_once) {
  cupti->offer(&(mock_offer){rec->records + first, n, time_shift, correlation_shift, at_once});
}

static void deliver_raw(const frame *f) {
  if (!opt->deliver_recorded) return;
  offer(f->record, f->records, true);
  do cupti->deliver();
  while (cupti->starved() && opt->speed == 0 && !*stopping);
}

static void launch(const frame *f) {
  if (round_no && f->captured) return; // the graph is there already
  mock_launch call = {.cbid = get32(f->body, 12), .correlation = mock_correlation(get32(f->body, 8), correlation_shift)};
  mock_launch *open = &open_launches[f->thread];
  result->launches++;
  if (!f->captured) {
    cupti->launch_enter(&call);
    cupti->launch_exit(&call);
  } else {
    if (open->correlation) cupti->launch_exit(open); // its captured frame stands after this: calls don't nest
    *open = call;
    cupti->launch_enter(open);
  }
}

static void captured(const frame *f) {
  mock_launch *open = &open_launches[f->thread];
  if (open->correlation != mock_correlation(get32(f->body, 0), correlation_shift)) return;
  cupti->launch_exit(open);
  *open = (mock_launch){0};
}

static void push(const frame *f) {
  const uint8_t *payload = f->kind == PUSH_PAYLOAD ? f->body + 24 : NULL;
  size_t before = payload ? 40 + get32(payload, 12) : 24, length = f->length - before;
  const char *text = (const char *)f->body + before;
  uint32_t domain = get32(f->body, 16);
  char *moved = malloc(length + 24);
  if (!moved) abort();
  nvtx_push(domain, moved, sequence_shift(text, length, domain ? 0 : round_no * seq_period, moved), payload);
  free(moved);
}

static void perform(const frame *f) {
  const uint8_t *b = f->body;
  switch (f->kind) {
  case RAW: deliver_raw(f); break;
  case LAUNCH: launch(f); break;
  case PUSH:
  case PUSH_PAYLOAD: push(f); break;
  case POP: nvtx_pop(get32(b, 16), NULL); break;
  case POP_PAYLOAD: nvtx_pop(get32(b, 16), b + 24); break;
  case SCHEMA: nvtx_schema(b, f->length); break;
  case DROPPED: cupti->dropped(get64(b, 0)); break;
  case DOMAIN: nvtx_domain(get32(b, 0), (const char *)b + 4, f->length - 4); break;
  }
  if (round_no) return; // graphs stay as they were captured
  switch (f->kind) {
  case NODE_CREATED: cupti->node_created(get64(b, 0), get32(b, 8)); break;
  case NODE_CLONED: cupti->node_cloned(get64(b, 0), get64(b, 8)); break;
  case GRAPH_EXEC: cupti->graph_instantiated(get32(b, 0), get32(b, 4)); break;
  case CAPTURED: captured(f); break;
  }
}

static void begin_round(void) {
  at = 0;
  if (!opt->deliver_recorded) offer(0, rec->n_records, false);
}

// next_round says whether there is another, and begins it.
static bool next_round(void) {
  result->rounds = ++round_no;
  if (!opt->loop || (opt->rounds && round_no == opt->rounds)) return false;
  time_shift += (int64_t)opt->period;
  correlation_shift = (uint32_t)(((uint64_t)correlation_shift + correlation_step) % UINT32_MAX);
  begin_round();
  return true;
}

// A range that the recording leaves open would be opened again each round, deeper and deeper.
static void begin_leg(uint32_t thread) {
  if (rounds_begun[thread] == round_no) return;
  rounds_begun[thread] = round_no;
  nvtx_unwind();
}

// leg plays this thread's frames until another's turn comes.
static int64_t leg(uint32_t thread) {
  for (;;) {
    if (at == rec->n_frames && !next_round()) return -1;
    const frame *f = &rec->frames[at];
    if (f->thread != thread) return f->thread;
    begin_leg(thread);
    keep_pace();
    if (!clock_until(f->time + (uint64_t)time_shift, stopping)) return -1;
    if (at >= kill_at && !round_no) kill(getpid(), SIGKILL);
    if (at == takeover_at && !round_no) takeover();
    perform(f);
    at++;
  }
}

static void read_faults(void) {
  char text[32];
  correlation_shift = 0;
  if (fault_text("wrap", text, sizeof text)) correlation_shift = UINT32_MAX - rec->correlation_middle;
  kill_at = takeover_at = SIZE_MAX;
  if (fault_text("kill-at", text, sizeof text)) kill_at = (size_t)(strtod(text, NULL) * (double)rec->n_frames);
  if (fault_text("takeover", text, sizeof text)) takeover_at = (size_t)(strtod(text, NULL) * (double)rec->n_frames);
}

// drain waits until the client has every record that is ready; as long as it gets some.
static void drain(void) {
  uint64_t left = UINT64_MAX, since = monotonic_now();
  for (uint64_t now; (now = cupti->pending()) && !*stopping; pause_ns(1000000)) {
    if (now != left) left = now, since = monotonic_now();
    if (monotonic_now() - since > 10000000000u) break; // a client that does not flush gets the rest at its exit
  }
}

// finish lets all that was launched end, and the client have it.
static void finish(void) {
  if (*stopping) return; // the clock stands: what the file launches later never runs, what runs now never ends
  uint64_t end = rec->last + (uint64_t)time_shift + 1;
  clock_until(end, stopping);
  clock_release(end);
  drain();
  cupti->release();
  drain();
}

void play(const recording *r, const options *o, _Atomic bool *stop, outcome *out) {
  rec = r, opt = o, stopping = stop, result = out;
  *out = (outcome){0};
  read_faults();
  time_shift = o->shift;
  correlation_step = r->correlation_high - r->correlation_low + 1;
  seq_period = o->loop ? sequence_period(r) : 0;
  if (!(open_launches = calloc(r->n_threads, sizeof *open_launches))) abort();
  if (!(rounds_begun = calloc(r->n_threads, sizeof *rounds_begun))) abort();
  began = monotonic_now();
  begin_round();
  run_threads(r->n_threads, leg);
  finish();
  out->seconds = (double)(monotonic_now() - began) / 1e9;
  out->stopped = *stop;
  free(rounds_begun);
  free(open_launches);
  open_launches = NULL;
  rounds_begun = NULL;
}
