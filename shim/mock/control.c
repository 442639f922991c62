// The player's side of the mock.
#include "state.h"

static void start(bool lossless) {
  read_faults(&mock.fault);
  mock.lossless = lossless;
  start_worker();
}

static void deliver(void) { run_pass(PASS_FLUSH, "the player"); }

static void add_dropped(uint64_t n) {
  pthread_mutex_lock(&mock.lock);
  mock.dropped += n;
  mock.stats.dropped += n;
  pthread_mutex_unlock(&mock.lock);
}

static void exiting(void) {
  check_forced();
  mock.exiting = true;
}

static void read_stats(mock_stats *stats) {
  pthread_mutex_lock(&mock.lock);
  *stats = mock.stats;
  pthread_mutex_unlock(&mock.lock);
}

extern const mock_control kernhes_mock;
API const mock_control kernhes_mock = {
    .start = start,
    .driver_initialised = driver_initialised,
    .context_created = context_created,
    .context_destroyed = context_destroyed,
    .context_handle = context_handle,
    .launch_enter = launch_enter,
    .launch_exit = launch_exit,
    .node_created = node_created,
    .node_cloned = node_cloned,
    .graph_instantiated = graph_instantiated,
    .graph_destroyed = graph_destroyed,
    .tracing = tracing,
    .replays = replays,
    .offer = offer_records,
    .deliver = deliver,
    .dropped = add_dropped,
    .starved = starved,
    .pending = pending_records,
    .release = release_withheld,
    .exiting = exiting,
    .stats = read_stats,
};
