#include "capture/replayers.h"

#include "capture/events.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

struct replayer {
  _Atomic uint32_t thread; // 0: free
  atomic_bool parked, calling;
};

static struct replayer list[REPLAYERS_MAX];
static atomic_bool overflowed;
static _Atomic uint32_t capturing;
static _Atomic uint64_t steps, made_at, came_at; // step of the last graph that was made, and of the last thread that came

// ended asks the kernel. An id that went to a new thread counts as alive: nothing is finalized that might not be.
static bool ended(uint32_t thread) { return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH; }

static bool drop_ended(struct replayer *r) {
  uint32_t thread = atomic_load(&r->thread);
  return thread != 0 && ended(thread) && atomic_compare_exchange_strong(&r->thread, &thread, 0);
}

static bool take_place(void) {
  uint32_t thread = events_thread();
  for (uint32_t i = 0; i < REPLAYERS_MAX; i++) {
    uint32_t none = 0;
    // A place with our id is that of a thread that has ended, whose id we were given.
    if (atomic_load(&list[i].thread) != thread && !atomic_compare_exchange_strong(&list[i].thread, &none, thread)) continue;
    atomic_store(&list[i].parked, false);
    atomic_store(&list[i].calling, false);
    self.replayer = (uint16_t)(i + 1);
    atomic_store(&came_at, replayers_steps());
    return true;
  }
  return false;
}

void replayers_note(void) {
  if (self.replayer != 0 || take_place()) return;
  for (uint32_t i = 0; i < REPLAYERS_MAX; i++) drop_ended(&list[i]); // an engine of many short threads: 50 µs of one
  if (!take_place()) atomic_store(&overflowed, true);
}

void replayers_park(bool parked) {
  if (self.replayer != 0) atomic_store(&list[self.replayer - 1].parked, parked);
}

void replayers_call(bool inside) {
  if (self.replayer != 0) atomic_store(&list[self.replayer - 1].calling, inside);
}

uint32_t replayers_free(bool wrapped, uint32_t *one) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < REPLAYERS_MAX; i++) {
    uint32_t thread = atomic_load(&list[i].thread);
    if (thread == 0 || (wrapped ? !atomic_load(&list[i].calling) : atomic_load(&list[i].parked))) continue;
    if (drop_ended(&list[i])) continue;
    *one = thread;
    count++;
  }
  return count;
}

bool replayers_overflowed(void) { return atomic_load(&overflowed); }

void replayers_made(void) { atomic_store_explicit(&made_at, replayers_steps(), memory_order_relaxed); }
void replayers_step(void) { atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed); }
uint64_t replayers_steps(void) { return atomic_load_explicit(&steps, memory_order_relaxed); }

uint64_t replayers_since(void) {
  uint64_t made = atomic_load_explicit(&made_at, memory_order_relaxed); // before the steps: the difference is not negative
  return replayers_steps() - made;
}

uint64_t replayers_known(void) {
  uint64_t came = atomic_load(&came_at);
  return replayers_steps() - came;
}

void replayers_capture(bool begun) {
  if (begun) {
    atomic_fetch_add(&capturing, 1);
    replayers_made();
    return;
  }
  uint32_t open = atomic_load(&capturing);
  while (open > 0 && !atomic_compare_exchange_weak(&capturing, &open, open - 1)) continue;
}

void replayers_captured(void) {
  uint32_t none = 0;
  if (atomic_compare_exchange_strong(&capturing, &none, 1)) replayers_made();
}

uint32_t replayers_capturing(void) { return atomic_load(&capturing); }

void replayers_forked(void) {
  for (uint32_t i = 0; i < REPLAYERS_MAX; i++) {
    atomic_store(&list[i].thread, 0);
    atomic_store(&list[i].parked, false);
    atomic_store(&list[i].calling, false);
  }
  atomic_store(&overflowed, false);
  atomic_store(&capturing, 0);
  self.replayer = 0;
}
