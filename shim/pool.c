// The pool: two lock-free stacks of indexes, one of free buffers and one of completed ones. The head of a stack
// carries a count beside the index, so that one which was taken and put back in between is noticed.
#include "pool.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct buffer *buffers;
static uint8_t *memory;
static uint32_t count;
static uint64_t each; // bytes of one

static _Atomic uint64_t free_head, done_head; // low half: index + 1, 0: empty; high half: changes
static _Atomic uint64_t waiting, requests;
static _Atomic uint32_t out, most;

static _Alignas(8) uint8_t scrap[POOL_SCRAP_BYTES];

static void put(_Atomic uint64_t *head, uint32_t index) {
  uint64_t old = atomic_load(head);
  do {
    atomic_store_explicit(&buffers[index].linked, (uint32_t)old, memory_order_relaxed);
  } while (!atomic_compare_exchange_weak(head, &old, ((old >> 32) + 1) << 32 | (index + 1)));
}

bool pool_open(uint32_t want, uint64_t size) {
  if (memory != NULL) return true;
  buffers = calloc(want, sizeof *buffers);
  void *map = mmap(NULL, want * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (buffers == NULL || map == MAP_FAILED) {
    free(buffers);
    return false;
  }
  each = size;
  count = want;
  memory = map;
  for (uint32_t i = want; i-- > 0;) {
    buffers[i].bytes = memory + i * size;
    put(&free_head, i);
  }
  return true;
}

uint8_t *pool_lend(uint64_t *size) {
  atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
  uint64_t old = atomic_load(&free_head), next;
  uint32_t index;
  do {
    if ((uint32_t)old == 0) return NULL;
    index = (uint32_t)old - 1;
    next = atomic_load_explicit(&buffers[index].linked, memory_order_relaxed);
  } while (!atomic_compare_exchange_weak(&free_head, &old, ((old >> 32) + 1) << 32 | next));
  uint32_t now = atomic_fetch_add(&out, 1) + 1, was = atomic_load(&most);
  while (now > was && !atomic_compare_exchange_weak(&most, &was, now)) continue;
  *size = each;
  return buffers[index].bytes;
}

uint8_t *pool_scrap(void) { return scrap; }
bool pool_is_scrap(const uint8_t *bytes) { return bytes == scrap; }

void pool_complete(uint8_t *bytes, uint64_t valid) {
  uint64_t at = (uint64_t)(bytes - memory);
  if (memory == NULL || bytes < memory || at >= count * each || at % each != 0) return;
  uint32_t index = (uint32_t)(at / each);
  buffers[index].valid = valid <= each ? valid : each;
  atomic_fetch_add(&waiting, buffers[index].valid);
  put(&done_head, index);
}

struct buffer *pool_completed(void) {
  uint64_t old = atomic_load(&done_head);
  while (!atomic_compare_exchange_weak(&done_head, &old, ((old >> 32) + 1) << 32)) continue;
  struct buffer *list = NULL;
  for (uint32_t at = (uint32_t)old; at != 0;) { // the last completed is on top: this turns them around
    struct buffer *b = &buffers[at - 1];
    at = atomic_load_explicit(&b->linked, memory_order_relaxed);
    b->next = list;
    list = b;
  }
  return list;
}

void pool_return(struct buffer *b) {
  atomic_fetch_sub(&waiting, b->valid);
  atomic_fetch_sub(&out, 1);
  put(&free_head, (uint32_t)(b - buffers));
}

uint64_t pool_waiting(void) { return atomic_load(&waiting); }
uint32_t pool_out(void) { return atomic_load(&out); }
uint32_t pool_out_most(void) { return atomic_load(&most); }
uint64_t pool_requests(void) { return atomic_load(&requests); }
