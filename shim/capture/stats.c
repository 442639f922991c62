#include "capture/stats.h"

#include "capture/edge.h"
#include "capture/events.h"
#include "capture/meter.h"
#include "capture/pool.h"
#include "capture/windows.h"
#include "host/clock.h"

void stats_body(const struct stats_source *from, struct bytes *body) {
  const struct queue *q = from->queue;
  const kw_stat stats[] = {
      {KW_STAT_CPU_NS, 0, clock_cpu() + from->report->cpu_ns},
      {KW_STAT_SENT_BYTES, 0, from->link->sent_bytes},
      {KW_STAT_QUEUED_BYTES, 0, q->bytes},
      {KW_STAT_QUEUED_BYTES_MAX, 0, q->most},
      {KW_STAT_BUFFERS, 0, pool_out()},
      {KW_STAT_BUFFERS_MAX, 0, pool_out_most()},
      {KW_STAT_CALLBACKS, 0, from->encoder->callbacks_seen},
      {KW_STAT_KERNELS, 0, from->records->kernels},
      {KW_STAT_COPIES, 0, from->records->copies},
      {KW_STAT_EVENTS, 0, from->encoder->events_seen},
      {KW_STAT_CONNECTS, 0, from->link->connects},
      {KW_STAT_FLUSHES, 0, from->report->flushes},
      {KW_STAT_FLUSH_NS, 0, from->report->flush_ns},
      {KW_STAT_SLOW_FLUSHES, 0, from->report->slow},
      {KW_STAT_TEXTS_CUT, 0, events_cut()},
      {KW_STAT_PINNED_DROPPED, 0, q->base.dropped},
      {KW_STAT_BUFFER_REQUESTS, 0, pool_requests()},
      {KW_STAT_CALLBACK_NS, 0, meter_estimate(&meter_callbacks, from->encoder->callbacks_seen)},
      {KW_STAT_RANGE_NS, 0, meter_estimate(&meter_ranges, from->encoder->ranges_seen)},
      {KW_STAT_BUFFER_NS, 0, atomic_load(&meter_buffers.ns)},
      {KW_STAT_RANGES, 0, from->encoder->ranges_seen},
  };
  bytes_put(body, stats, sizeof stats);
  if (!windows_on()) return;
  struct windows_counts w = windows_counts();
  const kw_stat of_windows[] = {
      {KW_STAT_WINDOWS, 0, w.done},
      {KW_STAT_WINDOWS_LEFT, 0, w.left},
      {KW_STAT_WINDOWS_MISSED, 0, w.missed},
      {KW_STAT_HOLDS, 0, edge_holds()},
      {KW_STAT_HELD_NS, 0, edge_held_ns()},
      {KW_STAT_HOLDS_FAILED, 0, w.failed},
      {KW_STAT_FINALIZE_NS, 0, w.finalize_ns},
  };
  bytes_put(body, of_windows, sizeof of_windows);
}
