// The client's activity buffers while the mock owns them: asked for, watched, given back.
#include <string.h>
#include "state.h"

enum { POISON = 0xa5, GUARD = 64, KNOWN = 4096, SHORT_ROOM = 16 << 10 };

static mock_buffer known[KNOWN]; // every buffer seen; the oldest that the client has back makes room
static size_t n_known;
static mock_buffer *spare;
static bool requesting;
static pthread_cond_t requested = PTHREAD_COND_INITIALIZER;

static mock_buffer *find_known(const uint8_t *start) {
  for (size_t i = 0; i < n_known; i++)
    if (known[i].start == start) return &known[i];
  return NULL;
}

bool owns_buffers(void) {
  for (size_t i = 0; i < n_known; i++)
    if (known[i].owned) return true;
  return false;
}

// note_buffer needs the lock.
static mock_buffer *note_buffer(uint8_t *start, size_t size, size_t limit) {
  static size_t next;
  mock_buffer *b = find_known(start);
  if (b && b->owned) forbid("the request callback returned a buffer that CUPTI still owns");
  for (size_t i = 0; i < n_known; i++)
    if (known[i].owned && start < known[i].start + known[i].size && known[i].start < start + size)
      forbid("the request callback returned a buffer that overlaps one that CUPTI still owns");
  if (!b && n_known < KNOWN) b = &known[n_known++];
  for (size_t i = 0; !b && i < KNOWN; i++, next++)
    if (!known[next % KNOWN].owned) b = &known[next % KNOWN];
  if (!b) forbid("%d buffers are out at once", KNOWN);
  *b = (mock_buffer){.start = start, .size = size, .limit = limit, .owned = true, .sum = 1};
  return b;
}

static size_t room(const mock_buffer *b) {
  size_t size = b->size - GUARD;
  return mock.fault.short_buffers && size > SHORT_ROOM ? SHORT_ROOM : size;
}

static void poison(mock_buffer *b) {
  if (mock.zeroed_out)
    for (size_t i = 0; i < b->size; i++)
      if (b->start[i]) forbid("ZEROED_OUT_ACTIVITY_BUFFER is set and byte %zu of a new buffer is not zero", i);
  memset(b->start, POISON, room(b));
  memset(b->start + b->size - GUARD, POISON, GUARD);
  if (mock.fault.short_buffers) {
    static _Atomic uint64_t turn;
    b->limit = 3 + mix(turn++) % 18;
  }
}

// ask has the client give a buffer; NULL if it has none.
static mock_buffer *ask(void) {
  uint8_t untouched;
  uint8_t *start = &untouched;
  size_t size = SIZE_MAX - 1, limit = SIZE_MAX - 1;
  int outer = mock_inside;
  mock_inside = IN_REQUEST;
  if (mock.registered == 2) {
    struct { size_t size; uint64_t thread, zero[2]; } info = {.size = sizeof info};
    mock.request_v2(&start, &size, &limit, &info);
  } else {
    mock.request(&start, &size, &limit);
  }
  mock_inside = outer;
  if (start == &untouched) forbid("the request callback did not set *buffer");
  if (size == SIZE_MAX - 1) forbid("the request callback did not set *size");
  if (!start) {
    if (!MOCK_NULL_BUFFER) forbid("the request callback returned no buffer; CUPTI %d crashes", MOCK_API);
    return NULL;
  }
  if (limit == SIZE_MAX - 1) forbid("the request callback did not set *maxNumRecords");
  if ((uintptr_t)start % 8) forbid("the request callback returned a buffer that is not aligned to 8 bytes");
  if (size < MOCK_LARGEST * 2 + GUARD) forbid("the request callback returned a buffer of %zu bytes", size);
  pthread_mutex_lock(&mock.lock);
  mock_buffer *b = note_buffer(start, size, limit);
  pthread_mutex_unlock(&mock.lock);
  poison(b);
  return b;
}

// prefetch_buffer sees to it that there is a spare one, where activities are traced at all.
void prefetch_buffer(void) {
  if (!mock.registered || !mock.any_kind) return;
  pthread_mutex_lock(&mock.lock);
  bool mine = !spare && !requesting;
  if (mine) requesting = true;
  pthread_mutex_unlock(&mock.lock);
  if (!mine) return;
  mock_buffer *b = ask();
  pthread_mutex_lock(&mock.lock);
  spare = b;
  requesting = false;
  pthread_cond_broadcast(&requested);
  pthread_mutex_unlock(&mock.lock);
}

static mock_buffer *take_spare(void) {
  pthread_mutex_lock(&mock.lock);
  while (requesting) pthread_cond_wait(&requested, &mock.lock);
  mock_buffer *b = spare;
  spare = NULL;
  pthread_mutex_unlock(&mock.lock);
  return b;
}

mock_buffer *take_buffer(void) {
  mock_buffer *b = take_spare();
  return b ? b : ask();
}

void *buffer_room(mock_buffer *b, size_t bytes) {
  if (b->used + bytes > room(b) || (b->limit && b->records >= b->limit)) return NULL;
  return b->start + b->used;
}

static uint64_t sum_words(uint64_t sum, const uint8_t *from, const uint8_t *to) {
  for (uint64_t word; from < to; from += 8) {
    memcpy(&word, from, 8);
    sum = (sum ^ word) * 0x100000001b3ull;
  }
  return sum;
}

// buffer_wrote takes one record that was written at buffer_room into account.
void buffer_wrote(mock_buffer *b, size_t bytes) {
  b->sum = sum_words(b->sum, b->start + b->used, b->start + b->used + bytes);
  b->used += bytes;
  b->records++;
}

static void check_untouched(const mock_buffer *b) {
  if (sum_words(1, b->start, b->start + b->used) != b->sum) forbid("a record was altered in a buffer that CUPTI owns");
  for (size_t i = b->used; i < room(b); i++)
    if (b->start[i] != POISON) forbid("byte %zu was altered in a buffer that CUPTI owns", i);
  for (size_t i = b->size - GUARD; i < b->size; i++)
    if (b->start[i] != POISON) forbid("byte %zu was altered in a buffer that CUPTI owns", i);
}

void complete_buffer(mock_buffer *b) {
  static uint64_t turn;
  check_untouched(b);
  size_t valid = b->used;
  if (valid && mock.fault.truncate && ++turn % mock.fault.truncate == 0) {
    valid -= 40; // every record is longer
    mock.stats.truncated++;
  }
  pthread_mutex_lock(&mock.lock);
  b->owned = false;
  b->used = valid;
  mock.stats.buffers++;
  uint8_t *start = b->start;
  size_t size = b->size;
  pthread_mutex_unlock(&mock.lock);
  int outer = mock_inside;
  mock_inside = IN_COMPLETE;
  if (mock.registered == 2) {
    struct { size_t size; uint64_t thread; void **layouts; size_t count; } info = {.size = sizeof info};
    mock.complete_v2(start, size, valid, &info);
  } else {
    mock.complete(NULL, 0, start, size, valid);
  }
  mock_inside = outer;
}

void return_spare(void) {
  mock_buffer *b = take_spare();
  if (b) complete_buffer(b);
}

size_t known_valid(const uint8_t *start) {
  pthread_mutex_lock(&mock.lock);
  const mock_buffer *b = find_known(start);
  bool owned = b && b->owned;
  size_t valid = b ? b->used : (size_t)-1;
  pthread_mutex_unlock(&mock.lock);
  if (owned) forbid("records read from a buffer that CUPTI owns");
  return valid;
}
