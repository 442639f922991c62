// The pool: two stacks of indexes, one of free buffers and one of completed ones.
#include "capture/pool.h"

#include "capture/stack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

static struct buffer buffers[POOL_MOST + 1]; // the last is the early one
static linked links[POOL_MOST + 1];
static atomic_bool lent[POOL_MOST + 1]; // to CUPTI
static _Atomic(uint8_t *) memory;
static uint32_t count;
static uint64_t each; // bytes of one

static stack idle, done;
static _Atomic uint64_t waiting, requests;
static _Atomic uint32_t out, most;

static _Alignas(8) uint8_t early[POOL_EARLY_BYTES];
static atomic_bool early_lent; // once, and never again

bool pool_open(uint32_t want, uint64_t size) {
  if (memory != NULL) return true;
  if (want > POOL_MOST) want = POOL_MOST;
  void *map = mmap(NULL, want * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (map == MAP_FAILED) return false;
  each = size;
  count = want;
  for (uint32_t i = want; i-- > 0;) {
    buffers[i].bytes = (uint8_t *)map + i * size;
    stack_push(&idle, links, i);
  }
  atomic_store(&memory, map);
  return true;
}

static void count_out(void) {
  uint32_t now = atomic_fetch_add(&out, 1) + 1, was = atomic_load(&most);
  while (now > was && !atomic_compare_exchange_weak(&most, &was, now)) continue;
}

uint8_t *pool_lend(uint64_t *size) {
  atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
  if (atomic_load(&memory) == NULL) {
    if (atomic_exchange(&early_lent, true)) return NULL;
    buffers[POOL_MOST].bytes = early;
    atomic_store(&lent[POOL_MOST], true);
    *size = POOL_EARLY_BYTES;
    count_out();
    return early;
  }
  int64_t index = stack_pop(&idle, links);
  if (index < 0) return NULL;
  atomic_store_explicit(&lent[index], true, memory_order_relaxed);
  count_out();
  *size = each;
  return buffers[index].bytes;
}

// index_of gives a buffer's index, or -1 if it is none of ours.
static int64_t index_of(const uint8_t *bytes) {
  if (bytes == early) return POOL_MOST;
  const uint8_t *first = atomic_load(&memory);
  uint64_t at = (uintptr_t)bytes - (uintptr_t)first;
  return first == NULL || at >= count * each || at % each != 0 ? -1 : (int64_t)(at / each);
}

void pool_complete(uint8_t *bytes, uint64_t valid) {
  int64_t index = index_of(bytes);
  if (index < 0 || !atomic_exchange(&lent[index], false)) return;
  uint64_t room = index == POOL_MOST ? POOL_EARLY_BYTES : each;
  buffers[index].valid = valid <= room ? valid : room;
  atomic_fetch_add(&waiting, buffers[index].valid);
  stack_push(&done, links, (uint32_t)index);
}

struct buffer *pool_completed(void) {
  struct buffer *list = NULL;
  for (uint32_t at = stack_take(&done); at != 0;) { // the last completed is on top: this turns them around
    struct buffer *b = &buffers[at - 1];
    at = atomic_load_explicit(&links[at - 1], memory_order_relaxed);
    b->next = list;
    list = b;
  }
  return list;
}

void pool_return(struct buffer *b) {
  atomic_fetch_sub(&waiting, b->valid);
  atomic_fetch_sub(&out, 1);
  if (b->bytes != early) stack_push(&idle, links, (uint32_t)(b - buffers));
}

uint32_t pool_reclaim(void) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i <= POOL_MOST; i++) {
    if (!atomic_exchange(&lent[i], false)) continue;
    atomic_fetch_sub(&out, 1);
    if (i < count) stack_push(&idle, links, i);
    taken++;
  }
  return taken;
}

bool pool_low(void) { return atomic_load(&memory) != NULL && atomic_load(&out) * 4 > count * 3; }

uint64_t pool_waiting(void) { return atomic_load(&waiting); }
uint32_t pool_out(void) { return atomic_load(&out); }
uint32_t pool_out_most(void) { return atomic_load(&most); }
uint64_t pool_requests(void) { return atomic_load(&requests); }
