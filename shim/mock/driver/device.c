// A driver with a GPU that only takes time: each stream runs its kernels one after the other, as long as they ask for. Calls
// and kernels are told to the mock libcupti, if the process has one. What the driver forbids ends the process.
//
// A kernel takes the ns that its first parameter says. Contexts, streams, graphs and nodes are what engines need of them.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../mock.h"

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_READY = 600, DESTROYED = 709, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_IMPLICIT = 906 };
enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { CBID_LAUNCH = 307, CBID_END = 497, CBID_GRAPH = 514, CBID_BEGIN = 539, KERNEL_BYTES = 216, NODES = 4096, STREAMS = 256, DEEP = 64 };

typedef struct { uint64_t id, ns; } node;
typedef struct graph { uint32_t id, count; node nodes[NODES]; } graph;
typedef struct { graph *of; uint32_t id, instrumented; } exec;
typedef struct { uint32_t number; bool blocking, used; uint64_t busy_until; graph *capture; bool invalid; int mode; pthread_t by; } stream;
typedef struct { uint64_t at; } event;
typedef struct { uint32_t id; bool gone; } context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const mock_control *cupti;
static stream streams[STREAMS] = {{.blocking = true, .used = true}};
static context contexts[16];
static atomic_uint graphs, correlations, n_contexts;
static _Thread_local void *current[DEEP];
static _Thread_local int depth;
static _Thread_local int capture_mode = GLOBAL;

static _Noreturn void forbid(const char *what) {
  fprintf(stderr, "mock driver: FORBIDDEN: %s\n", what);
  fflush(stderr);
  abort();
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t t) {
  for (uint64_t n; (n = now()) < t;) {
    uint64_t ns = t - n < 1000000 ? t - n : 1000000;
    nanosleep(&(struct timespec){0, (long)ns}, NULL);
  }
}

static int look(struct dl_phdr_info *info, size_t size, void *to) {
  (void)size;
  const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libcupti.so", 12)) return 0;
  void *library = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  *(void **)to = library ? dlsym(library, MOCK_CONTROL_SYMBOL) : NULL;
  return 1;
}

EXPORT int cuInit(unsigned flags) {
  (void)flags;
  static atomic_flag done = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&done)) return SUCCESS;
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*inject)(void) = NULL;
  if (library) *(void **)&inject = dlsym(library, "InitializeInjection");
  if (inject) inject();
  dl_iterate_phdr(look, &cupti);
  if (cupti) cupti->start(false), cupti->driver_initialised();
  return SUCCESS;
}

static context *find_context(const void *handle) {
  for (unsigned i = 0; i < n_contexts; i++)
    if (handle == (cupti ? cupti->context_handle(contexts[i].id) : &contexts[i])) return &contexts[i];
  return NULL;
}

static void *handle_of(context *c) { return cupti ? cupti->context_handle(c->id) : c; }

EXPORT int cuCtxCreate_v2(void **to, unsigned flags, int device) {
  (void)flags;
  unsigned i = n_contexts++;
  contexts[i].id = i + 1;
  if (cupti) cupti->context_created(i + 1, (uint32_t)device);
  current[depth > 0 ? depth - 1 : depth++] = *to = handle_of(&contexts[i]);
  return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **to, int device) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  static void *primary;
  pthread_mutex_lock(&once);
  if (!primary) {
    unsigned i = n_contexts++;
    contexts[i].id = i + 1;
    if (cupti) cupti->context_created(i + 1, (uint32_t)device);
    primary = handle_of(&contexts[i]);
  }
  pthread_mutex_unlock(&once);
  *to = primary;
  return SUCCESS;
}

EXPORT int cuCtxDestroy_v2(void *handle) {
  context *c = find_context(handle);
  if (!c || c->gone) return INVALID_VALUE;
  if (cupti) cupti->context_destroyed(c->id);
  c->gone = true;
  return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *handle) {
  current[depth > 0 ? depth - 1 : depth++] = handle;
  return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **to) {
  *to = depth > 0 ? current[depth - 1] : NULL;
  if (!*to && !n_contexts) *to = (void *)1; // the player has no contexts of this driver's
  return SUCCESS;
}

EXPORT int cuCtxPushCurrent_v2(void *handle) {
  context *c = find_context(handle);
  if (!c) forbid("a context is named that never was");
  if (c->gone) forbid("a context is named after its destruction");
  if (depth == DEEP) return INVALID_VALUE;
  current[depth++] = handle;
  return SUCCESS;
}

EXPORT int cuCtxPopCurrent_v2(void **to) {
  if (!depth) return INVALID_VALUE;
  *to = current[--depth];
  return SUCCESS;
}

EXPORT int cuCtxSynchronize(void) {
  if (!depth) return INVALID_VALUE;
  context *c = find_context(current[depth - 1]);
  if (c && c->gone) return DESTROYED;
  uint64_t until = 0;
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < STREAMS; i++) {
    if (streams[i].capture) forbid("a context is synchronised while a capture is open");
    if (streams[i].busy_until > until) until = streams[i].busy_until;
  }
  pthread_mutex_unlock(&lock);
  sleep_until(until);
  return SUCCESS;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  int was = capture_mode;
  capture_mode = *mode;
  *mode = was;
  return SUCCESS;
}

EXPORT int cuStreamCreate(void **to, unsigned flags) {
  pthread_mutex_lock(&lock);
  for (unsigned i = 1; i < STREAMS; i++) {
    if (streams[i].used) continue;
    streams[i] = (stream){.number = i, .blocking = flags == 0, .used = true};
    *to = &streams[i];
    pthread_mutex_unlock(&lock);
    return SUCCESS;
  }
  abort();
}

EXPORT int cuStreamDestroy_v2(void *handle) {
  pthread_mutex_lock(&lock);
  ((stream *)handle)->used = false;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

static stream *of(void *handle) { return (uintptr_t)handle <= 2 ? &streams[0] : handle; }

EXPORT int cuStreamIsCapturing(void *handle, int *status) {
  stream *s = of(handle);
  int result = SUCCESS;
  pthread_mutex_lock(&lock);
  *status = s->capture != NULL;
  for (unsigned i = 1; s == &streams[0] && i < STREAMS; i++)
    if (streams[i].capture && streams[i].blocking) result = CAPTURE_IMPLICIT;
  pthread_mutex_unlock(&lock);
  return result;
}

// unsafe is called by calls that a capture of another thread may forbid: they end it.
static void unsafe(void) {
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < STREAMS; i++) {
    stream *s = &streams[i];
    bool mine = s->capture && pthread_equal(s->by, pthread_self());
    if (s->capture && capture_mode != RELAXED && s->mode != RELAXED && (mine || s->mode == GLOBAL)) s->invalid = true;
  }
  pthread_mutex_unlock(&lock);
}

EXPORT int cuStreamSynchronize(void *handle) {
  stream *s = of(handle);
  pthread_mutex_lock(&lock);
  uint64_t until = s->busy_until;
  pthread_mutex_unlock(&lock);
  sleep_until(until);
  return SUCCESS;
}

EXPORT int cuEventCreate(void **to, unsigned flags) {
  (void)flags;
  *to = calloc(1, sizeof(event));
  return SUCCESS;
}

EXPORT int cuEventRecord(void *e, void *handle) {
  stream *s = of(handle);
  pthread_mutex_lock(&lock);
  ((event *)e)->at = s->busy_until;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

EXPORT int cuEventSynchronize(void *e) {
  pthread_mutex_lock(&lock);
  uint64_t at = ((event *)e)->at;
  pthread_mutex_unlock(&lock);
  sleep_until(at);
  return SUCCESS;
}

EXPORT int cuEventElapsedTime(float *ms, void *from, void *to) {
  pthread_mutex_lock(&lock);
  *ms = (float)((double)(((event *)to)->at - ((event *)from)->at) / 1e6);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

EXPORT int cuEventQuery(void *e) {
  unsafe();
  pthread_mutex_lock(&lock);
  uint64_t at = ((event *)e)->at;
  pthread_mutex_unlock(&lock);
  return at <= now() ? SUCCESS : NOT_READY;
}

EXPORT int cuModuleLoadData(void **module, const void *image) { return (void)image, *module = (void *)1, SUCCESS; }
EXPORT int cuModuleGetFunction(void **f, void *module, const char *name) { return (void)module, (void)name, *f = (void *)1, SUCCESS; }
EXPORT int cuMemAlloc_v2(uint64_t *p, size_t bytes) { return unsafe(), *p = (uint64_t)(uintptr_t)malloc(bytes), SUCCESS; }
EXPORT int cuMemsetD8Async(uint64_t p, uint8_t v, size_t n, void *s) { return (void)p, (void)v, (void)n, (void)s, SUCCESS; }

// record writes a kernel's record, as CUPTI 13.0 has it.
static void record(uint8_t *to, uint64_t start, uint64_t end, uint64_t id, uint32_t correlation, uint32_t number) {
  const struct { size_t at; uint32_t value; } fields[] = {{0, 10}, {44, 1}, {48, number}, {52, 1}, {56, 1}, {60, 1}, {64, 32},
                                                          {68, 1}, {72, 1}, {92, correlation}, {156, (uint32_t)(id >> 32)}};
  memset(to, 0, KERNEL_BYTES);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) memcpy(to + fields[i].at, &fields[i].value, 4);
  memcpy(to + 16, &start, 8);
  memcpy(to + 24, &end, 8);
  memcpy(to + 144, &id, 8);
}

// run has a stream do nodes, and tells CUPTI where it would be told; it gives when they end.
static uint64_t run(stream *s, const node *nodes, uint32_t count, uint32_t correlation, bool traced) {
  uint8_t *bytes = traced ? malloc((size_t)count * KERNEL_BYTES) : NULL;
  mock_record *records = traced ? malloc(count * sizeof *records) : NULL;
  pthread_mutex_lock(&lock);
  uint64_t at = now();
  if (s->busy_until > at) at = s->busy_until;
  for (uint32_t i = 0; i < count; i++, at += 200) {
    uint64_t end = at + nodes[i].ns;
    if (traced) {
      record(bytes + (size_t)i * KERNEL_BYTES, at, end, nodes[i].id, correlation, s->number);
      records[i] = (mock_record){bytes + (size_t)i * KERNEL_BYTES, "spin", KERNEL_BYTES};
    }
    at = end;
  }
  s->busy_until = at;
  pthread_mutex_unlock(&lock);
  if (traced) cupti->offer(&(mock_offer){.records = records, .count = count, .instrumented = true});
  free(bytes);
  free(records);
  return at;
}

EXPORT int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          void *handle, void **params, void **extra) {
  (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
  stream *s = of(handle);
  mock_launch call = {.cbid = CBID_LAUNCH, .correlation = ++correlations};
  if (cupti) cupti->launch_enter(&call);
  uint32_t traced = cupti ? cupti->tracing() : 0;
  node n = {.ns = *(const uint64_t *)params[0]};
  pthread_mutex_lock(&lock);
  graph *g = s->capture;
  if (g) {
    n.id = (uint64_t)g->id << 32 | g->count;
    if (g->count == NODES) abort();
    g->nodes[g->count++] = n;
  }
  pthread_mutex_unlock(&lock);
  if (g && cupti) cupti->node_created(n.id, 0);
  if (!g) run(s, &n, 1, call.correlation, traced != 0);
  if (cupti) cupti->launch_exit(&call);
  return SUCCESS;
}

EXPORT int cuStreamBeginCapture_v2(void *handle, int mode) {
  stream *s = of(handle);
  mock_launch call = {.cbid = CBID_BEGIN, .correlation = ++correlations};
  if (cupti) cupti->launch_enter(&call);
  graph *g = calloc(1, sizeof *g);
  g->id = ++graphs;
  pthread_mutex_lock(&lock);
  s->capture = g;
  s->invalid = false;
  s->mode = mode;
  s->by = pthread_self();
  pthread_mutex_unlock(&lock);
  if (cupti) cupti->launch_exit(&call);
  return SUCCESS;
}

EXPORT int cuStreamEndCapture(void *handle, void **to) {
  stream *s = of(handle);
  mock_launch call = {.cbid = CBID_END, .correlation = ++correlations};
  if (cupti) cupti->launch_enter(&call);
  pthread_mutex_lock(&lock);
  *to = s->capture;
  bool invalid = s->invalid;
  s->capture = NULL;
  pthread_mutex_unlock(&lock);
  if (cupti) cupti->launch_exit(&call);
  return invalid ? CAPTURE_INVALIDATED : SUCCESS;
}

EXPORT int cuGraphInstantiateWithFlags(void **to, void *handle, unsigned long long flags) {
  (void)flags;
  graph *g = handle, *clone = malloc(sizeof *clone);
  exec *e = calloc(1, sizeof *e);
  *clone = *g;
  clone->id = ++graphs;
  for (uint32_t i = 0; i < clone->count; i++) {
    clone->nodes[i].id = (uint64_t)clone->id << 32 | i;
    if (cupti) cupti->node_created(clone->nodes[i].id, 0), cupti->node_cloned(g->nodes[i].id, clone->nodes[i].id);
  }
  *e = (exec){.of = clone, .id = ++graphs};
  *to = e;
  return SUCCESS;
}

EXPORT int cuGraphDestroy(void *handle) { return free(handle), SUCCESS; }

EXPORT int cuGraphExecDestroy(void *handle) {
  exec *e = handle;
  free(e->of);
  free(e);
  return SUCCESS;
}

EXPORT int cuGraphLaunch(void *handle, void *on) {
  exec *e = handle;
  stream *s = of(on);
  mock_launch call = {.cbid = CBID_GRAPH, .correlation = ++correlations};
  if (cupti) cupti->launch_enter(&call);
  uint32_t traced = cupti ? cupti->tracing() : 0;
  if (traced) e->instrumented = traced;
  uint64_t end = run(s, e->of->nodes, e->of->count, call.correlation, traced != 0);
  // Its nodes stay instrumented until CUPTI is finalized, whether it is recorded or not.
  if (cupti && e->instrumented) cupti->replays(end, e->instrumented);
  if (cupti) cupti->launch_exit(&call);
  return SUCCESS;
}
