// The drain's thread holds the contexts on its stack of current ones. To use a context that was destroyed there is an error
// that the driver defines; to name one by its handle is not.
#include "capture/drain.h"

#include "capture/events.h"
#include "host/clock.h"
#include "host/threads.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#define MS 1000000ull

// CUresult
enum { SUCCESS = 0, DEINITIALIZED = 4, INVALID_CONTEXT = 201, CONTEXT_IS_DESTROYED = 709, CAPTURE_FIRST = 900, CAPTURE_LAST = 908 };
enum { CAPTURE_RELAXED = 2 };

static struct {
  int (*push)(void *), (*pop)(void **), (*synchronize)(void), (*capture_mode)(int *), (*capturing)(void *, int *);
} cuda;

static _Atomic(const void *) contexts[DRAIN_CONTEXTS];
static _Atomic uint32_t lists = 1; // counts the lists that there were
static atomic_bool too_many;

enum { IDLE, TAKE, TAKEN, WAIT, DONE, FAILED, DROP };
static atomic_int state = IDLE;
static struct wakeup asked, answered;
static const char *_Atomic why = "";
static bool opened;

void drain_note(const void *context) {
  uint32_t list = atomic_load_explicit(&lists, memory_order_acquire);
  if (context == NULL || (self.context == context && self.contexts == list)) return;
  self.context = context;
  self.contexts = list;
  for (uint32_t i = 0; i < DRAIN_CONTEXTS; i++) {
    const void *there = atomic_load(&contexts[i]);
    if (there == context) return;
    if (there == NULL && (atomic_compare_exchange_strong(&contexts[i], &there, context) || there == context)) return;
  }
  atomic_store(&too_many, true);
}

void drain_destroyed(const void *context) {
  for (uint32_t i = 0; i < DRAIN_CONTEXTS; i++) {
    const void *there = context;
    atomic_compare_exchange_strong(&contexts[i], &there, NULL);
  }
  atomic_fetch_add(&lists, 1); // the next context may have the same address
}

void drain_forget(void) {
  for (uint32_t i = 0; i < DRAIN_CONTEXTS; i++) atomic_store(&contexts[i], NULL);
  atomic_store(&too_many, false);
  atomic_fetch_add(&lists, 1);
}

const char *drain_why(void) { return atomic_load(&why); }

static bool is_gone(int result) {
  return result == DEINITIALIZED || result == INVALID_CONTEXT || result == CONTEXT_IS_DESTROYED;
}

// take_all gives how many contexts are now on this thread's stack.
static uint32_t take_all(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < DRAIN_CONTEXTS; i++) {
    const void *context = atomic_load(&contexts[i]);
    if (context != NULL && cuda.push((void *)(uintptr_t)context) == SUCCESS) count++;
  }
  return count;
}

// idle waits for the current context; NULL, or why it cannot. The default stream tells of a capture on a stream that
// blocks it, and does so without harm to the capture.
static const char *idle(void) {
  int status = 0;
  if (cuda.capturing != NULL && cuda.capturing((void *)1, &status) != SUCCESS) return "a capture is open";
  int result = cuda.synchronize();
  if (result == SUCCESS || is_gone(result)) return NULL;
  if (result >= CAPTURE_FIRST && result <= CAPTURE_LAST) return "a capture is open";
  return "the driver reports an error";
}

static void answer(int is) {
  atomic_store(&state, is);
  threads_signal(&answered);
}

static void *run(void *unused) {
  (void)unused;
  int relaxed = CAPTURE_RELAXED; // our calls are none that end another thread's capture
  if (cuda.capture_mode != NULL) cuda.capture_mode(&relaxed);
  for (uint32_t count = 0;;) {
    threads_wait(&asked, INT32_MAX);
    if (atomic_load(&state) == DROP) {
      for (void *context; count > 0; count--) cuda.pop(&context);
      answer(IDLE);
    } else if (atomic_load(&state) == TAKE) {
      count = take_all();
      answer(TAKEN);
    } else if (atomic_load(&state) == WAIT) {
      const char *wrong = count > 0 ? idle() : NULL;
      for (void *context; count > 1 && wrong == NULL; wrong = idle()) cuda.pop(&context), count--;
      if (wrong != NULL) atomic_store(&why, wrong);
      answer(wrong == NULL ? DONE : FAILED);
    }
  }
  return NULL;
}

static void *symbol(void *driver, const char *name, const char *older) {
  void *found = dlsym(driver, name);
  return found != NULL || older == NULL ? found : dlsym(driver, older);
}

bool drain_open(void) {
  if (opened) return true;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == NULL) return false;
  cuda.push = (int (*)(void *))symbol(driver, "cuCtxPushCurrent_v2", "cuCtxPushCurrent");
  cuda.pop = (int (*)(void **))symbol(driver, "cuCtxPopCurrent_v2", "cuCtxPopCurrent");
  cuda.synchronize = (int (*)(void))symbol(driver, "cuCtxSynchronize", NULL);
  cuda.capture_mode = (int (*)(int *))symbol(driver, "cuThreadExchangeStreamCaptureMode", NULL);
  cuda.capturing = (int (*)(void *, int *))symbol(driver, "cuStreamIsCapturing", NULL);
  if (cuda.push == NULL || cuda.pop == NULL || cuda.synchronize == NULL) return false;
  pthread_t thread;
  opened = threads_start(&thread, "kernhes-drain", run);
  if (opened) pthread_detach(thread);
  return opened;
}

// wait_for waits until the thread has left a state, at most ns.
static bool wait_for(int from, uint64_t ns) {
  for (uint64_t end = clock_tick() + ns; atomic_load(&state) == from;) {
    uint64_t now = clock_tick();
    if (now >= end) return false;
    threads_wait(&answered, (int)((end - now) / MS) + 1);
  }
  return true;
}

static bool ask(int what, uint64_t ns) {
  atomic_store(&state, what);
  threads_signal(&asked);
  if (wait_for(what, ns)) return true;
  atomic_store(&why, "what was launched has not ended in time");
  return false;
}

bool drain_busy(void) {
  int is = atomic_load(&state);
  return is == TAKE || is == WAIT || is == DROP;
}

bool drain_take(uint64_t ns) {
  int before = atomic_load(&state);
  if (drain_busy() || atomic_load(&too_many)) {
    atomic_store(&why, drain_busy() ? "an earlier wait for the GPU has not ended" : "too many contexts");
    return false;
  }
  return (before == IDLE || ask(DROP, ns)) && ask(TAKE, ns);
}

void drain_drop(uint64_t ns) {
  if (!drain_busy()) ask(DROP, ns);
}

bool drain_wait(uint64_t ns) { return ask(WAIT, ns) && atomic_load(&state) == DONE; }
