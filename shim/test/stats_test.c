// The shim's measurement of itself: each key has the figure that the wire's header says, and the reserved field is zero.
#include "capture/events.h"
#include "capture/meter.h"
#include "capture/pool.h"
#include "capture/edge.h"
#include "capture/stats.h"
#include "capture/windows.h"
#include "check.h"

#include <string.h>

// Linked with --wrap: whether this process is in the mode windows, and what was counted there.
static bool in_windows;
bool __wrap_windows_on(void);
struct windows_counts __wrap_windows_counts(void);
uint64_t __wrap_edge_holds(void);
uint64_t __wrap_edge_held_ns(void);
bool __wrap_windows_on(void) { return in_windows; }
struct windows_counts __wrap_windows_counts(void) {
  return (struct windows_counts){.done = 201, .left = 202, .missed = 203, .failed = 204, .finalize_ns = 205};
}
uint64_t __wrap_edge_holds(void) { return 206; }
uint64_t __wrap_edge_held_ns(void) { return 207; }

static kw_stat stats[64];
static size_t count;

static uint64_t value_of(uint32_t key) {
  size_t at = 0;
  while (at < count && stats[at].key != key) at++;
  CHECK(at < count);
  for (size_t i = at + 1; i < count; i++) CHECK(stats[i].key != key); // once
  return stats[at].value;
}

int main(void) {
  struct encoder e = {.callbacks_seen = 20, .events_seen = 30, .ranges_seen = 40};
  struct records r = {.kernels = 50, .copies = 60};
  struct queue q = {.bytes = 70, .most = 80, .base.dropped = 90};
  struct link l = {.sent_bytes = 100, .connects = 110};
  struct flush_report report = {.flushes = 120, .flush_ns = 130, .slow = 140, .cpu_ns = 1ull << 60};
  uint64_t size;
  CHECK(pool_open(4, 4096));
  uint8_t *lent[] = {pool_lend(&size), pool_lend(&size), pool_lend(&size)};
  pool_complete(lent[0], 10);
  pool_return(pool_completed());
  atomic_store(&meter_callbacks.timed, 2); // 3.5 ns each
  atomic_store(&meter_callbacks.ns, 7);
  atomic_store(&meter_ranges.timed, 4); // 25 ns each
  atomic_store(&meter_ranges.ns, 100);
  atomic_store(&meter_buffers.ns, 150);
  static char text[KW_MAX_TEXT + 2];
  memset(text, 'a', sizeof text);
  CHECK(events_open(64u << 10));
  for (int i = 0; i < 2; i++) events_push(0, 1, 0, 1, (struct text){.bytes = text, .length = KW_MAX_TEXT + 1});

  struct bytes body = {0};
  stats_body(&(struct stats_source){.encoder = &e, .records = &r, .queue = &q, .link = &l, .report = &report}, &body);
  count = body.used / sizeof *stats;
  CHECK(body.used == count * sizeof *stats && count <= sizeof stats / sizeof *stats);
  memcpy(stats, body.data, body.used);
  for (size_t i = 0; i < count; i++) CHECK_EQUAL(stats[i].zero, 0);
  static const struct {
    uint32_t key;
    uint64_t want;
  } all[] = {{KW_STAT_SENT_BYTES, 100}, {KW_STAT_QUEUED_BYTES, 70}, {KW_STAT_QUEUED_BYTES_MAX, 80}, {KW_STAT_BUFFERS, 2},
             {KW_STAT_BUFFERS_MAX, 3}, {KW_STAT_CALLBACKS, 20}, {KW_STAT_KERNELS, 50}, {KW_STAT_COPIES, 60}, {KW_STAT_EVENTS, 30},
             {KW_STAT_CONNECTS, 110}, {KW_STAT_FLUSHES, 120}, {KW_STAT_FLUSH_NS, 130}, {KW_STAT_SLOW_FLUSHES, 140},
             {KW_STAT_TEXTS_CUT, 2}, {KW_STAT_PINNED_DROPPED, 90}, {KW_STAT_BUFFER_REQUESTS, 3}, {KW_STAT_CALLBACK_NS, 70},
             {KW_STAT_RANGE_NS, 1000}, {KW_STAT_BUFFER_NS, 150}, {KW_STAT_RANGES, 40}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK_EQUAL(value_of(all[i].key), all[i].want);
  uint64_t cpu = value_of(KW_STAT_CPU_NS); // the flusher's, and this thread's
  CHECK(cpu > 1ull << 60 && cpu < (1ull << 60) + 60000000000ull);
  CHECK_EQUAL(count, sizeof all / sizeof *all + 1);
  size_t without = count;
  body.used = 0;
  in_windows = true;
  stats_body(&(struct stats_source){.encoder = &e, .records = &r, .queue = &q, .link = &l, .report = &report}, &body);
  count = body.used / sizeof *stats;
  memcpy(stats, body.data, body.used);
  for (size_t i = 0; i < count; i++) CHECK_EQUAL(stats[i].zero, 0);
  static const struct {
    uint32_t key;
    uint64_t want;
  } more[] = {{KW_STAT_WINDOWS, 201}, {KW_STAT_WINDOWS_LEFT, 202}, {KW_STAT_WINDOWS_MISSED, 203}, {KW_STAT_HOLDS_FAILED, 204},
              {KW_STAT_FINALIZE_NS, 205}, {KW_STAT_HOLDS, 206}, {KW_STAT_HELD_NS, 207}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) CHECK_EQUAL(value_of(more[i].key), more[i].want);
  CHECK_EQUAL(count, without + sizeof more / sizeof *more);
  bytes_free(&body);
  return 0;
}
