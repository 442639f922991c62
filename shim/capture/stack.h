// A lock-free stack of indexes. Its head carries a count beside the index, so that one which was taken and put back in
// between is noticed.
#ifndef KERNHES_STACK_H
#define KERNHES_STACK_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t stack;  // low half: index + 1, 0: empty; high half: changes
typedef _Atomic uint32_t linked; // of each index: index + 1 of the one below

static inline uint64_t stack_changed(uint64_t old, uint32_t top) { return ((old >> 32) + 1) << 32 | top; }

static inline void stack_push(stack *s, linked *links, uint32_t index) {
  uint64_t old = atomic_load(s);
  do {
    atomic_store_explicit(&links[index], (uint32_t)old, memory_order_relaxed);
  } while (!atomic_compare_exchange_weak(s, &old, stack_changed(old, index + 1)));
}

// stack_pop gives an index, or -1 if there is none.
static inline int64_t stack_pop(stack *s, linked *links) {
  uint64_t old = atomic_load(s);
  uint32_t below;
  do {
    if ((uint32_t)old == 0) return -1;
    below = atomic_load_explicit(&links[(uint32_t)old - 1], memory_order_relaxed);
  } while (!atomic_compare_exchange_weak(s, &old, stack_changed(old, below)));
  return (int64_t)(uint32_t)old - 1;
}

// stack_take empties the stack and gives index + 1 of what was on top: follow it through links.
static inline uint32_t stack_take(stack *s) {
  uint64_t old = atomic_load(s);
  while (!atomic_compare_exchange_weak(s, &old, stack_changed(old, 0))) continue;
  return (uint32_t)old;
}

#endif
