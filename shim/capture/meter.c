#include "capture/meter.h"

struct meter meter_callbacks, meter_ranges, meter_buffers;

static _Atomic uint32_t threads;
static _Atomic uint64_t reading; // ns

uint16_t meter_first(void) { return (uint16_t)(1 + (atomic_fetch_add(&threads, 1) + 1) * 97u % METER_EVERY); }

void meter_calibrate(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 32; i++) {
    uint64_t began = clock_tick(), took = clock_tick() - began;
    if (took < least) least = took;
  }
  atomic_store(&reading, least);
}

void meter_add(struct meter *m, uint64_t began) {
  uint64_t took = clock_tick() - began, own = atomic_load(&reading);
  atomic_fetch_add_explicit(&m->ns, took > own ? took - own : 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&m->timed, 1, memory_order_relaxed);
}

uint64_t meter_estimate(const struct meter *m, uint64_t calls) {
  uint64_t timed = atomic_load(&m->timed);
  return timed == 0 ? 0 : (uint64_t)((double)atomic_load(&m->ns) / (double)timed * (double)calls);
}
