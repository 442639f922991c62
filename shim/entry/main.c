// Coming, starting, forking, going.
#include "entry/main.h"

#include "capture/attach.h"
#include "capture/calls.h"
#include "capture/cupti.h"
#include "capture/edge.h"
#include "capture/events.h"
#include "capture/flusher.h"
#include "capture/meter.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/replayers.h"
#include "capture/sender.h"
#include "capture/windows.h"
#include "entry/wrapper.h"
#include "host/env.h"
#include "host/log.h"
#include "host/threads.h"
#include "transport/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static pid_t owner; // the process that InitializeInjection was called in
static atomic_bool initialised, disabled, started;
static bool running; // both threads run
static atomic_bool ready; // what was started runs
#define LISTEN_MS 100     // the longest that a thread waits for another that attaches: that takes some 10 ms
static enum attached state;
static int (*current_context)(void **); // cuCtxGetCurrent

// Under LD_PRELOAD nobody calls us: before main, CUDA and NVTX are told to. Loaded later, the environment is left
// alone, since other threads may be reading it.
__attribute__((constructor)) static void preloaded(void) {
  threads_remember();
  Dl_info self_info;
  char path[PATH_MAX];
  const char *preload = secure_getenv("LD_PRELOAD");
  if (preload == NULL || dladdr((void *)(uintptr_t)&preloaded, &self_info) == 0) return;
  if (self_info.dli_fname == NULL || realpath(self_info.dli_fname, path) == NULL) return;
  const char *slash = strrchr(self_info.dli_fname, '/');
  if (strstr(preload, slash == NULL ? self_info.dli_fname : slash + 1) == NULL) return;
  wrapper_stands();
  setenv("CUDA_INJECTION64_PATH", path, 0);
  setenv("NVTX_INJECTION64_PATH", path, 0);
}

// in_child: only the forking thread lives on. CUDA does not survive a fork, so a process that had it is done with it;
// one that had only NVTX may still come to CUDA.
static void in_child(void) {
  link_forked();
  edge_forked();
  replayers_forked();
  if (atomic_load(&initialised)) {
    atomic_store(&disabled, true);
    events_close();
    calls_off();
  }
  calls_forked();
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

void main_watch_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
}

// at_exit must not touch a copied CUPTI in a child of fork, whatever the child's handlers did.
static void at_exit(void) {
  if (getpid() != owner || atomic_load(&disabled) || !atomic_load(&started)) return;
  attach_exiting();
  edge_exiting();
  if (running) flusher_finish();
  events_close();
  calls_off();
  sender_finish();
}

// ring_bytes is a power of two. By default 4 MiB: 40 ms of the densest launching seen, 1 million events a second.
static uint64_t ring_bytes(void) {
  uint64_t bytes = 64u << 10;
  while (bytes < env_number(ENV_EVENTS_KB) << 10) bytes *= 2;
  return bytes;
}

// open_memory maps all that launches and ranges will need; false if there is none. Where nothing is traced yet, no pool.
static bool open_memory(bool off) {
  bool pool = off || state == ATTACHED_BUSY ||
              pool_open((uint32_t)env_number(ENV_POOL_BUFFERS), env_number(ENV_POOL_BUFFER_KB) << 10);
  meter_calibrate();
  return pool && events_open(ring_bytes());
}

// context_made: the first context was made (or is taken to be, where that cannot be seen): what has to run starts.
static void context_made(void) {
  if (atomic_load(&disabled) || atomic_exchange(&started, true)) return;
  bool off = state == ATTACHED_NOT || attach_ended(); // then ranges are all there is to say
  running = open_memory(off);
  if (running && state == ATTACHED_LATER) state = windows_listen(); // now, so that captures are heard from here on
  off = off || state == ATTACHED_NOT;
  if (off) events_trace(false);
  if (running) {
    calls_live();
  } else {
    mode_set(MODE_OFF, "no memory for the buffers");
    off = true;
    calls_off();
  }
  // A thread that cannot be started leaves the engine untraced, not broken.
  if (running && !flusher_start(!off && state == ATTACHED, state == ATTACHED_BUSY)) log_line("the flusher could not be started");
  if (!sender_start(off, !running)) log_line("the sender could not be started");
  atomic_store(&ready, true);
}

// range: one was opened while CUPTI is left alone, which then tells of no contexts. The first range of a thread that has a
// context speaks for a process that is not traced. One without ranges is never heard of, and one that only calls cuInit
// starts no thread.
static void range(void) {
  void *context = NULL;
  if (current_context != NULL && (current_context(&context) != 0 || context == NULL)) return;
  context_made();
  // What another thread captures while this one attaches would have no labels.
  for (int i = 0; i < LISTEN_MS * 10 && !atomic_load(&ready) && !atomic_load(&disabled); i++) usleep(100);
}

static void watch_ranges(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver != NULL) current_context = (int (*)(void **))dlsym(driver, "cuCtxGetCurrent");
  calls_watch(range);
}

static void call_next(void) {
  const char *path = env_text(ENV_CUDA_NEXT);
  if (*path == 0) return;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int (*initialize)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "InitializeInjection");
  if (initialize != NULL) initialize();
  else log_line("KERNHES_CUDA_NEXT: %s", library == NULL ? dlerror() : "no InitializeInjection");
}

// InitializeInjection is called by the CUDA driver in cuInit. It returns 1: nothing that goes wrong here is the
// engine's concern.
EXPORT int InitializeInjection(void) {
  if (atomic_exchange(&initialised, true)) return 1;
  env_load();
  owner = getpid();
  main_watch_forks();
  call_next();
  attach_on_context(context_made);
  char why[MODE_REASON];
  if (cupti_load(why, sizeof why)) {
    state = attach(false);
  } else {
    mode_set(MODE_OFF, "%s", why);
    state = ATTACHED_NOT;
  }
  atexit(at_exit);
  if (state == ATTACHED_NOT || state == ATTACHED_LATER) watch_ranges();
  else if (state == ATTACHED_BUSY) context_made(); // no context will be seen, and CUPTI is to be tried again
  return 1;
}

// kernhes_unacknowledged is for tools that drive the shim: the bytes of frames that the collector has not
// acknowledged, and of what is still to become frames. 0: all is taken, or nothing was ever started.
EXPORT uint64_t kernhes_unacknowledged(void);

uint64_t kernhes_unacknowledged(void) { return sender_unacknowledged(); }
