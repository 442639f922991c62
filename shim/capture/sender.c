// The sender's rounds: take what CUPTI completed, then the events (so that launches come before their records),
// make frames of both, keep them within the bound, and move bytes.
#include "capture/sender.h"

#include "capture/asked.h"
#include "capture/attach.h"
#include "capture/calls.h"
#include "capture/encode.h"
#include "capture/events.h"
#include "capture/flusher.h"
#include "capture/identity.h"
#include "capture/manifest.h"
#include "capture/mode.h"
#include "capture/names.h"
#include "capture/order.h"
#include "capture/pool.h"
#include "capture/records.h"
#include "capture/stats.h"
#include "capture/wake.h"
#include "capture/windows.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "host/threads.h"
#include "transport/link.h"
#include "transport/pairs.h"

#include <stdatomic.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define CLOSE_AFTER (10 * MS) // the longest that a frame is being filled
#define WAIT_MOST 10          // ms between two looks at the ring: 4 MiB in 10 ms are 400 MB/s of events
#define STUCK SECOND          // a thread that stopped inside the ring holds records back no longer than this
#define YIELD_MOST (86400 * SECOND) // a day, whatever is asked for
#define FAREWELL (60 * SECOND)

static struct wakeup ended;
static pthread_t thread;
static bool off, farewell;
static atomic_bool running, finishing;
static _Atomic uint64_t unacknowledged;
static atomic_bool working; // between taking something and publishing what is unacknowledged

// A taking is what was taken from CUPTI and the flusher together, to be converted once the events before it are out.
struct taking {
  bool any;
  uint64_t since; // tick
  struct buffer *buffers;
  struct flush_report report;
  struct mode_state mode;
};

static struct {
  struct losses losses;
  struct queue queue;
  struct encoder encoder;
  struct order order;
  struct records records;
  struct link link;
  struct taking taking;
  uint32_t mode_version;
  uint64_t flushed; // of the last FLUSHED
  bool readable;
  uint64_t last_close, last_flushed, last_stats; // ticks
} s;

static void give(void *to, const kw_event *event) { encode_event(to, event); }

static void say_losses(void) {
  struct ring_loss ring = ring_lost(events_ring());
  losses_add(&s.losses, KW_LOST_SHIM_EVENTS, KW_OF_EVENTS, (struct loss){ring.count, ring.from, ring.to});
  losses_add(&s.losses, KW_LOST_SHIM_POOL, KW_OF_RECORDS, records_take_scrapped());
  kw_lost l;
  while (losses_take(&s.losses, &l)) encode_frame(&s.encoder, KW_LOST, &l, sizeof l);
}

static void say_flushed(void) {
  say_losses(); // before the watermark passes the time in which they were lost
  kw_flushed f = {.now = clock_now(), .flushed = s.flushed, .monotonic = clock_monotonic(),
                  .flags = s.readable ? KW_READABLE : 0};
  encode_frame(&s.encoder, KW_FLUSHED, &f, sizeof f);
  s.last_flushed = clock_tick();
}

static void say_mode(const struct mode_state *mode) {
  if (mode->version == s.mode_version) return;
  s.mode_version = mode->version;
  struct bytes pairs = {0};
  identity_mode(&pairs, mode);
  encode_frame(&s.encoder, KW_INFO, pairs.data, (uint32_t)pairs.used);
  bytes_free(&pairs);
}

static void take(void) {
  if (s.taking.any) return;
  flusher_take(&s.taking.report); // before the buffers: what had come by then must stand before FLUSHED
  s.taking.buffers = pool_completed();
  // Off is said before the events, on after them: what happens in between is then taken for untraced, not the reverse.
  s.taking.mode = mode_get();
  if (s.taking.mode.mode == MODE_OFF) say_mode(&s.taking.mode);
  s.taking.since = clock_tick();
  s.taking.any = true;
}

static void convert(void) {
  struct taking *t = &s.taking;
  for (struct buffer *b = t->buffers, *next; b != NULL; b = next) {
    next = b->next;
    records_convert(&s.records, b);
    pool_return(b);
  }
  losses_add(&s.losses, KW_LOST_CUPTI_DROPPED, KW_OF_RECORDS, t->report.dropped);
  if (t->report.clocks > 0) encode_frame(&s.encoder, KW_CLOCK, &t->report.clock, sizeof t->report.clock);
  if (t->report.flushed_new) {
    s.flushed = t->report.flushed;
    s.readable = t->report.readable;
    say_flushed();
  }
  say_mode(&t->mode);
  t->any = false;
  t->buffers = NULL;
}

static void say_stats(void) {
  struct stats_source from = {.encoder = &s.encoder, .records = &s.records, .queue = &s.queue, .link = &s.link,
                              .report = &s.taking.report};
  struct bytes body = {0};
  stats_body(&from, &body);
  if (body.used > 0) encode_frame(&s.encoder, KW_STATS, body.data, (uint32_t)body.used);
  bytes_free(&body);
}

static void say_manifest(void) {
  struct bytes text = {0};
  if (manifest_read(env_text(ENV_MANIFEST), &text)) encode_frame(&s.encoder, KW_MANIFEST, text.data, (uint32_t)text.used);
  bytes_free(&text);
}

static void say_bye(uint32_t reason) {
  kw_bye b = {.reason = reason, .kernels = s.records.kernels, .copies = s.records.copies};
  encode_frame(&s.encoder, KW_BYE, &b, sizeof b);
}

static void publish(void) {
  atomic_store(&unacknowledged, s.queue.bytes + encode_pending(&s.encoder) + order_held(&s.order));
  atomic_store(&working, false);
}

// control does what the collector asks for.
static void control(const kw_control *c) {
  if (c == NULL) { // another collector, which has asked for nothing yet
    asked_nothing();
    return;
  }
  switch (c->command) {
  case KW_COMMAND_WINDOW:
    windows_order(c->argument[0], c->argument[1], c->argument[2]);
    return;
  case KW_COMMAND_YIELD:
    flusher_yield(c->argument[0] < YIELD_MOST ? c->argument[0] : YIELD_MOST);
    return;
  case KW_COMMAND_RESUME:
    flusher_resume();
    return;
  case KW_COMMAND_PLACE:
    asked_place(c->argument[0], c->argument[1], c->argument[2]);
    return;
  case KW_COMMAND_RANGES:
    asked_ranges(c->argument[0], c->argument[1]);
    return;
  }
}

static void move_bytes(void) {
  // A collector that lives through a gap would miss names and nodes that were folded: it is given the snapshot.
  if (queue_trim(&s.queue) && s.link.socket.fd >= 0) link_break(&s.link, &s.queue, "frames were dropped before they were sent");
  link_step(&s.link, &s.queue, &s.encoder.strings);
  if (link_disowned(&s.link)) link_renew(&s.link, &s.queue, identity_session());
}

static void round_of_work(void) {
  atomic_store(&working, true);
  take();
  bool settled = order_round(&s.order, give, &s.encoder);
  uint64_t tick = clock_tick();
  if (settled || tick - s.taking.since > STUCK) convert();
  if (tick - s.last_flushed >= SECOND) say_flushed();
  if (tick - s.last_stats >= SECOND) {
    say_stats();
    s.last_stats = tick;
  }
  if (tick - s.last_close >= CLOSE_AFTER) {
    encode_close(&s.encoder);
    s.last_close = tick;
  }
  move_bytes();
  publish();
}

// wait waits for the socket while it holds something up, and else for whoever has something new. What the collector
// says then waits for the next round.
static void wait(int ms) {
  if (link_held_up(&s.link, &s.queue)) link_wait(&s.link, &s.queue, ms);
  else wake_wait_sender(ms);
}

// patience gives how long the ring may be left alone, by how full it is.
static int patience(void) {
  uint64_t used = ring_used(events_ring()), size = events_ring()->size;
  return used > size / 4 ? 0 : used > size / 16 ? 1 : WAIT_MOST;
}

// part waits until all is acknowledged; not after `until` (a tick), nor longer than exit lingers.
static void part(uint64_t until) {
  bool shortened = false;
  while (s.queue.first != NULL && s.link.state != LINK_SENSELESS && clock_tick() < until) {
    if (atomic_load(&finishing) && !shortened) {
      uint64_t linger = clock_tick() + env_number(ENV_LINGER_MS) * MS;
      until = linger < until ? linger : until;
      shortened = true;
    }
    move_bytes();
    publish();
    if (s.link.socket.fd >= 0) link_wait(&s.link, &s.queue, WAIT_MOST);
    else wake_wait_sender(WAIT_MOST);
  }
}

static void trace(void) {
  say_manifest();
  while (!atomic_load(&finishing) && s.link.state != LINK_SENSELESS) {
    round_of_work();
    wait(patience());
  }
  if (s.link.state == LINK_SENSELESS) { // nobody will ever listen: be as if we were not here
    calls_off();
    events_close();
    flusher_yield(UINT64_MAX);
    return;
  }
  uint64_t until = clock_tick() + STUCK;
  do round_of_work();
  while ((s.taking.any || ring_used(events_ring()) > 0 || pool_waiting() > 0) && clock_tick() < until);
  say_stats();
  say_flushed();
  say_bye(KW_BYE_EXIT);
  part(UINT64_MAX);
}

static void *run(void *unused) {
  (void)unused;
  if (off) { // now, outside CUPTI's callback
    attach_quiesce(NULL);
    detach(true);
  }
  struct mode_state mode = mode_get();
  s.mode_version = mode.version;
  identity_pairs(&s.queue.base.pairs);
  identity_mode(&s.queue.base.pairs, &mode);
  link_open(&s.link, identity_session(), control);
  if (farewell) {
    say_bye(KW_BYE_DETACH);
    part(clock_tick() + FAREWELL);
  } else {
    trace();
  }
  link_close(&s.link, &s.queue);
  queue_free(&s.queue);
  encode_free(&s.encoder);
  order_free(&s.order);
  if (s.link.state == LINK_SENSELESS) atomic_store(&running, false);
  publish();
  threads_signal(&ended);
  return NULL;
}

bool sender_start(bool is_off, bool only_farewell) {
  off = is_off;
  farewell = only_farewell;
  s.queue.bound = env_number(ENV_BUFFER_MB) << 20;
  s.queue.losses = &s.losses;
  s.encoder.queue = &s.queue;
  s.encoder.names = (struct names){.registered = names_registered, .domain = names_domain};
  s.order.ring = events_ring();
  s.records = (struct records){.encoder = &s.encoder, .losses = &s.losses};
  s.link.socket.fd = -1;
  atomic_store(&running, threads_start(&thread, "kernhes-send", run));
  return atomic_load(&running);
}

void sender_finish(void) {
  if (!atomic_load(&running)) return;
  atomic_store(&finishing, true);
  wake_sender();
  // The linger, and what the last rounds may take.
  if (threads_wait(&ended, (int)env_number(ENV_LINGER_MS) + 2 * (int)(STUCK / MS))) pthread_join(thread, NULL);
}

uint64_t sender_unacknowledged(void) {
  if (!atomic_load(&running)) return 0;
  // In this order: what leaves the ring or the pool is being worked on, and then published, so it is never missed.
  uint64_t waiting = pool_waiting() + (events_ring()->base != NULL ? ring_used(events_ring()) : 0);
  if (atomic_load(&working)) waiting++;
  return waiting + atomic_load(&unacknowledged);
}
