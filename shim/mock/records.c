// One recorded record becomes one of this version's, faults and all, in a buffer of the client's.
#include <stdlib.h>
#include <string.h>
#include "state.h"

static mock_buffer *current, **sealed;
static size_t n_sealed, room_sealed;

static uint32_t get32(const uint8_t *b, size_t at) { uint32_t v; memcpy(&v, b + at, 4); return v; }
static uint64_t get64(const uint8_t *b, size_t at) { uint64_t v; memcpy(&v, b + at, 8); return v; }
static void put32(uint8_t *b, size_t at, uint32_t v) { memcpy(b + at, &v, 4); }
static void put64(uint8_t *b, size_t at, uint64_t v) { memcpy(b + at, &v, 8); }

enum { START = 16, END = 24, NAME = 104 }; // start and end lie there in all the kinds that are recorded

uint64_t record_start(const mock_record *r) { return get64(r->bytes, START); }

uint64_t record_ready(const mock_record *r) {
  uint64_t start = get64(r->bytes, START), end = get64(r->bytes, END);
  return end > start ? end : start;
}

static void shift_time(uint8_t *b, size_t at, int64_t shift) {
  uint64_t t = get64(b, at);
  if (t) put64(b, at, t + (uint64_t)shift);
}

static void shift_correlation(uint8_t *b, size_t at, uint32_t shift) { put32(b, at, mock_correlation(get32(b, at), shift)); }

// What a version has beyond the recorded one is poison, its last word another: no field there may be believed.
static void extend(uint8_t *b, size_t from, size_t to) {
  if (from >= to) return;
  memset(b + from, 0xa5, to - from);
  if (MOCK_CUPTI >= 130400) memset(b + to - 8, 0x5a, 8);
}

static void translate(uint8_t *b, const due_record *due, uint32_t kind) {
  size_t size = mock_size(kind), recorded = due->record->size;
  memcpy(b, due->record->bytes, recorded < size ? recorded : size);
  extend(b, recorded, size);
  int64_t shift = due->offer->time_shift;
  shift_time(b, START, shift);
  shift_time(b, END, shift);
  if (due->unfinished) put64(b, END, 0);
  bool hes = mock.hes_on;
  switch (kind) {
  case KIND_KERNEL:
    shift_time(b, 32, shift);  // completed
    shift_time(b, 120, shift); // queued
    shift_time(b, 128, shift); // submitted
    shift_correlation(b, 92, due->offer->correlation_shift);
    put64(b, NAME, (uint64_t)(uintptr_t)due->record->name);
    if (hes) put64(b, 168, 0); // channel: not collected
    break;
  case KIND_PEER: shift_correlation(b, 60, due->offer->correlation_shift); break;
  default:
    shift_correlation(b, 44, due->offer->correlation_shift);
    if (hes) put64(b, 76, 0);
    // HES before 13.4 lost the graph's half of a memcpy node's id.
    if (hes && kind == KIND_MEMCPY && MOCK_CUPTI < 130400) put32(b, 68, 0);
  }
}

static const uint64_t hour = 3600000000000; // ns

static bool nth(uint64_t n, uint64_t count) { return n && count % n == 0; }

static void spoil(uint8_t *b, uint64_t count) {
  const mock_faults *f = &mock.fault;
  if (nth(f->zero_start, count)) put64(b, START, 0);
  if (nth(f->zero_end, count)) put64(b, END, 0);
  if (nth(f->zero_start, count) || nth(f->zero_end, count)) {
    mock.stats.zero++;
  } else if (nth(f->backward, count)) {
    put64(b, END, get64(b, START) - 1);
    mock.stats.backward++;
  } else if (nth(f->too_long, count)) {
    put64(b, END, get64(b, END) + hour);
    mock.stats.too_long++;
  } else if (nth(f->future, count)) {
    shift_time(b, START, (int64_t)(2 * hour));
    shift_time(b, END, (int64_t)(2 * hour));
    mock.stats.future++;
  }
}

// ensure has a current buffer with that much room; false: the client has none.
static bool ensure(size_t bytes) {
  if (current && buffer_room(current, bytes)) return true;
  seal_current();
  if (!(current = take_buffer())) return false;
  if (!buffer_room(current, bytes)) abort(); // every buffer holds two of the largest
  return true;
}

static void write_record(const due_record *due, const uint8_t *bytes, size_t size) {
  memcpy(buffer_room(current, size), bytes, size);
  if (!current->records) current->key = record_start(due->record) + (uint64_t)due->offer->time_shift;
  buffer_wrote(current, size);
}

static void drop_record(uint64_t *reason) {
  pthread_mutex_lock(&mock.lock);
  mock.dropped++;
  mock.stats.dropped++;
  if (reason) ++*reason;
  pthread_mutex_unlock(&mock.lock);
}

static mock_offer *withheld;
static size_t n_withheld, room_withheld;
static _Atomic bool released;

static void withhold(const due_record *due) {
  if (n_withheld == room_withheld) {
    room_withheld = room_withheld ? room_withheld * 2 : 64;
    if (!(withheld = realloc(withheld, room_withheld * sizeof *withheld))) abort();
  }
  withheld[n_withheld++] = (mock_offer){due->record, 1, due->offer->time_shift, due->offer->correlation_shift, true};
  mock.stats.withheld++;
}

void release_withheld(void) {
  released = true;
  for (size_t i = 0; i < n_withheld; i++) offer_records(&withheld[i]);
  n_withheld = 0;
}

// too_warm: a public report has CUPTI lose kernels in silence after some 79,000 were launched while it was attached.
// `kernel` counts those that were traced.
static bool too_warm(uint64_t kernel) {
  static uint64_t before; // the last attachment began
  static uint32_t attachment;
  if (attachment != mock.attachment) attachment = mock.attachment, before = kernel - 1;
  return mock.fault.warm_up && kernel - before > mock.fault.warm_up;
}

static bool traced(uint32_t kind, bool kept) {
  pthread_mutex_lock(&mock.lock);
  bool on = (mock.kinds[kind] || kept) && mock.registered;
  pthread_mutex_unlock(&mock.lock);
  return on;
}

bool emit_record(const due_record *due) {
  static uint64_t kernels; // those that were traced
  uint32_t kind = get32(due->record->bytes, 0);
  size_t size = mock_size(kind);
  const mock_faults *f = &mock.fault;
  if (!traced(kind, due->kept || due->offer->instrumented)) {
    mock.stats.untraced++;
    return true;
  }
  uint64_t count = kind == KIND_KERNEL ? kernels + 1 : 0;
  bool kernel = count != 0;
  if (kernel && nth(f->drop, count)) {
    drop_record(NULL);
    kernels = count;
    return true;
  }
  if (kernel && nth(f->drop_silent, count)) {
    mock.stats.dropped_silent++;
    kernels = count;
    return true;
  }
  if (kernel && too_warm(count)) {
    mock.stats.warm++;
    mock.stats.dropped_silent++;
    kernels = count;
    return true;
  }
  if (kernel && count <= f->withhold && !released) {
    withhold(due);
    kernels = count;
    return true;
  }
  if (!ensure(size)) {
    if (mock.lossless) return false;
    drop_record(&mock.stats.no_buffer);
    if (kernel) kernels = count;
    return true;
  }
  uint8_t bytes[MOCK_LARGEST];
  translate(bytes, due, kind);
  if (kernel) {
    spoil(bytes, count);
    kernels = count;
    mock.stats.delivered_kernels++;
  } else {
    mock.stats.delivered_copies++;
  }
  if (due->unfinished) mock.stats.unfinished++;
  write_record(due, bytes, size);
  if (kernel && nth(f->duplicate, count) && ensure(size)) {
    write_record(due, bytes, size);
    mock.stats.duplicated++;
    mock.stats.delivered_kernels++;
  }
  if (kernel && nth(f->unknown_kind, count) && ensure(MOCK_UNKNOWN_SIZE)) {
    memset(bytes, 0xa5, MOCK_UNKNOWN_SIZE);
    put32(bytes, 0, KIND_UNKNOWN);
    write_record(due, bytes, MOCK_UNKNOWN_SIZE);
    mock.stats.unknown++;
  }
  return true;
}

void seal_current(void) {
  if (!current) return;
  if (n_sealed == room_sealed) {
    room_sealed = room_sealed ? room_sealed * 2 : 64;
    if (!(sealed = realloc(sealed, room_sealed * sizeof *sealed))) abort();
  }
  sealed[n_sealed++] = current;
  current = NULL;
}

bool holding_records(void) { return current || n_sealed; }

static int by_key(const void *a, const void *b) {
  const mock_buffer *x = *(mock_buffer *const *)a, *y = *(mock_buffer *const *)b;
  return (x->key > y->key) - (x->key < y->key);
}

// With disorder, buffers of one pass change places where they begin within half a second of each other.
void deliver_sealed(void) {
  if (mock.fault.reordered && n_sealed) {
    for (size_t i = 0; i < n_sealed; i++) sealed[i]->key += mix(mock.fault.reorder ^ sealed[i]->key) % 500000000;
    qsort(sealed, n_sealed, sizeof *sealed, by_key);
  }
  for (size_t i = 0; i < n_sealed; i++) complete_buffer(sealed[i]);
  n_sealed = 0;
}
