// A well-behaved CUPTI and NVTX client, as small as it goes: it counts what it is given, checks what it can, and
// says it in one line of JSON in the file CLIENT_OUT when the process ends.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { BUFFERS = 64, SIZE = 1 << 20 };

// CUPTI, by dlsym; V2 where it is whole.
static struct {
  int (*version)(uint32_t *), (*subscribe)(void **, void *, void *), (*subscribe2)(void **, void *, void *, void *);
  int (*callback)(uint32_t, void *, int, uint32_t), (*reg)(void *, void *), (*reg2)(void *, void *, void *);
  int (*enable)(int), (*enable2)(void *, int, void *), (*next)(uint8_t *, size_t, void **), (*next2)(void *, uint8_t *, size_t, void **);
  int (*flush)(uint32_t), (*dropped)(void *, uint32_t, size_t *), (*dropped2)(void *, void *, uint32_t, size_t *);
  int (*node_id)(void *, uint64_t *), (*exec_id)(void *, uint32_t *), (*hes)(uint8_t), (*set2)(void *, int, size_t *, void *);
  int (*get2)(void *, int, size_t *, void *), (*now)(uint64_t *), (*now2)(void *, uint64_t *);
} cu;
static void *subscriber;
static bool v2;
static uint32_t version;

static struct {
  _Atomic uint64_t launches, exits, captured, created, cloned, execs, pushes, pops, registered, domains, schemas, payloads, states, contexts, hes, back, threads;
  uint64_t kernels, copies, dropped, unreadable, malformed, early, unnamed, unlaunched, zero, backward, too_long, future, buffers, other, disorder, hash;
} count;

// Launches by correlation id, to hold kernels against.
static struct { _Atomic uint32_t id; _Atomic uint64_t time; } launched[1 << 20];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *pool[BUFFERS];
static int n_pool;
static struct { uint8_t *start; size_t valid; } ready[BUFFERS];
static int n_ready;
static _Atomic bool ending, drained_last;
static pthread_t flusher, reader;
static _Thread_local bool in_launch, was_captured, counted;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void request(uint8_t **buffer, size_t *size, size_t *max) {
  pthread_mutex_lock(&lock);
  *buffer = n_pool ? pool[--n_pool] : NULL;
  pthread_mutex_unlock(&lock);
  *size = *buffer ? SIZE : 0;
  *max = 0;
}
static void request2(uint8_t **b, size_t *s, size_t *m, void *info) { (void)info; request(b, s, m); }

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  pthread_mutex_lock(&lock);
  ready[n_ready].start = buffer;
  ready[n_ready++].valid = valid;
  pthread_mutex_unlock(&lock);
}
static void complete2(uint8_t *b, size_t s, size_t v, void *info) { (void)info; complete(NULL, 0, b, s, v); }

static uint32_t g32(const uint8_t *b, int at) { uint32_t v; memcpy(&v, b + at, 4); return v; }
static uint64_t g64(const uint8_t *b, int at) { uint64_t v; memcpy(&v, b + at, 8); return v; }
static uint64_t fold(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15ull ^ (h >> 29); }

static uint64_t launch_time(uint32_t id) {
  for (uint64_t i = id & 0xfffff, n = 0; n < 64; i = (i + 1) & 0xfffff, n++)
    if (launched[i].id == id) return launched[i].time;
  return 0;
}

static void kernel(const uint8_t *r) {
  uint64_t start = g64(r, 16), end = g64(r, 24), at = launch_time(g32(r, 92));
  const char *name;
  memcpy(&name, r + 104, sizeof name);
  static uint64_t last;
  count.disorder += start < last;
  last = start;
  count.kernels++;
  if (!start || !end) count.zero++;
  else if (end < start) count.backward++;
  else if (end - start > 3600000000000) count.too_long++;
  else if (at && start - at > 3600000000000) count.future++;
  if (!name || !*name) count.unnamed++;
  if (!at) count.unlaunched++;
  else if (start && start + 100000 < at) count.early++;
  uint64_t h = fold(fold(fold(fold(1, start), end), g32(r, 92)), g64(r, 144));
  for (const char *c = name; c && *c; c++) h = fold(h, (uint64_t)*c);
  count.hash += fold(h, g32(r, 40));
}

static void walk(uint8_t *b, size_t valid) {
  void *r = NULL;
  int result;
  count.buffers++;
  while (!(result = v2 ? cu.next2(subscriber, b, valid, &r) : cu.next(b, valid, &r))) {
    switch (g32(r, 0)) {
    case 10: kernel(r); break;
    case 1: case 2: case 22: count.copies++; break;
    default: count.other++;
    }
  }
  if (result != 12) count.malformed++;
}

static void drain(void) {
  for (;;) {
    pthread_mutex_lock(&lock);
    int n = n_ready;
    uint8_t *b = n ? ready[0].start : NULL;
    size_t valid = n ? ready[0].valid : 0;
    if (n) memmove(ready, ready + 1, sizeof *ready * (size_t)--n_ready);
    pthread_mutex_unlock(&lock);
    if (!b) return;
    walk(b, valid);
    pthread_mutex_lock(&lock);
    pool[n_pool++] = b;
    pthread_mutex_unlock(&lock);
  }
}

static void flush(uint32_t flag) {
  cu.flush(flag);
  size_t n = 0;
  if (v2 ? cu.dropped2(subscriber, NULL, 0, &n) : cu.dropped(NULL, 0, &n)) count.unreadable++;
  count.dropped += n;
}

static void *flush_on(void *unused) {
  while (!ending) {
    usleep(20000);
    flush(0);
  }
  return unused;
}

static void *read_on(void *unused) {
  for (bool last = false; !last; usleep(500)) {
    last = drained_last;
    drain();
  }
  return unused;
}

static void on_callback(void *user, int domain, uint32_t cbid, const void *data) {
  const uint8_t *d = data;
  (void)user;
  if (domain == 6) count.states++;
  if (domain == 1 && g32(d, 0) == 0) {
    static _Atomic uint64_t last;
    uint64_t t = now(), i = g32(d, 64) & 0xfffff;
    if (t < last) count.back++;
    last = t;
    count.launches++;
    if (!counted) counted = true, atomic_fetch_add(&count.threads, 1);
    in_launch = true, was_captured = false;
    while (launched[i].id && launched[i].id != g32(d, 64)) i = (i + 1) & 0xfffff;
    launched[i].time = t;
    launched[i].id = g32(d, 64);
  } else if (domain == 1) {
    count.exits++;
    count.captured += was_captured;
    in_launch = false;
  }
  if (domain != 3) return;
  if (cbid == 5 && version < 130300 && !cu.hes(1)) count.hes = 1;
  if (cbid == 5 && v2) {
    size_t one = 1;
    uint8_t on = 0;
    cu.get2(NULL, 13, &one, &on);
    count.hes = on;
  }
  if (cbid == 1) count.contexts++;
  if (cbid != 13 && cbid != 20 && cbid != 18) return;
  const uint8_t *graph;
  memcpy(&graph, d + 16, sizeof graph);
  void *node, *original, *exec;
  memcpy(&node, graph + 16, sizeof node), memcpy(&original, graph + 24, sizeof node), memcpy(&exec, graph + 48, sizeof exec);
  uint64_t id = 0, from = 0;
  uint32_t exec_id = 0;
  if (cbid == 18 && !cu.exec_id(exec, &exec_id) && exec_id) count.execs++;
  if (cbid == 13 && !cu.node_id(node, &id)) {
    count.created++;
    was_captured |= in_launch;
  }
  if (cbid == 20 && !cu.node_id(node, &id) && !cu.node_id(original, &from) && id != from) count.cloned++;
}

static void report(void) {
  if (getenv("CLIENT_DIES")) return;
  ending = true;
  pthread_join(flusher, NULL);
  if (!getenv("CLIENT_NO_LAST_FLUSH")) flush(1);
  drained_last = true; // what has been completed by now
  pthread_join(reader, NULL);
  FILE *f = fopen(getenv("CLIENT_OUT") ? getenv("CLIENT_OUT") : "/dev/null", "w");
  if (!f) return;
  fprintf(f, "{\"rank\":\"%s\",\"cupti\":%u", getenv("KERNHES_RANK"), version);
#define SAY(field) fprintf(f, ",\"" #field "\":%llu", (unsigned long long)count.field)
  SAY(kernels); SAY(copies); SAY(launches); SAY(exits); SAY(captured); SAY(created); SAY(cloned); SAY(execs); SAY(pushes); SAY(pops);
  SAY(registered); SAY(domains); SAY(schemas); SAY(payloads); SAY(states); SAY(contexts); SAY(hes); SAY(back); SAY(dropped); SAY(unreadable); SAY(malformed);
  SAY(early); SAY(unnamed); SAY(unlaunched); SAY(zero); SAY(backward); SAY(too_long); SAY(future); SAY(other); SAY(disorder); SAY(threads); SAY(buffers); SAY(hash);
  fprintf(f, "}\n");
  fclose(f);
}

static void find(void *slot, const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name); // the process's libcupti is loaded already
  memcpy(slot, &symbol, sizeof symbol);
}

EXPORT int InitializeInjection(void) {
  find(&cu.version, "cuptiGetVersion"), find(&cu.subscribe, "cuptiSubscribe"), find(&cu.subscribe2, "cuptiSubscribe_v2");
  find(&cu.callback, "cuptiEnableCallback"), find(&cu.reg, "cuptiActivityRegisterCallbacks");
  find(&cu.reg2, "cuptiActivityRegisterCallbacks_v2"), find(&cu.enable, "cuptiActivityEnable"), find(&cu.enable2, "cuptiActivityEnable_v2");
  find(&cu.next, "cuptiActivityGetNextRecord"), find(&cu.next2, "cuptiActivityGetNextRecord_v2"), find(&cu.flush, "cuptiActivityFlushAll");
  find(&cu.dropped, "cuptiActivityGetNumDroppedRecords"), find(&cu.dropped2, "cuptiActivityGetNumDroppedRecords_v2");
  find(&cu.node_id, "cuptiGetGraphNodeId"), find(&cu.exec_id, "cuptiGetGraphExecId"), find(&cu.hes, "cuptiActivityEnableHWTrace");
  find(&cu.set2, "cuptiActivitySetAttribute_v2"), find(&cu.get2, "cuptiActivityGetAttribute_v2");
  if (!cu.version || !cu.next) return 0;
  cu.version(&version);
  v2 = cu.next2 != NULL;
  if (v2) {
    struct { size_t size; const char *name; char *old; size_t old_size; uint8_t many, pad[7]; } params = {40, "client", NULL, 0, 1, {0}};
    size_t one = 1;
    cu.set2(NULL, 13, &one, &(uint8_t){1});
    if (cu.subscribe2(&subscriber, on_callback, NULL, &params)) return 0;
  } else if (cu.subscribe(&subscriber, on_callback, NULL)) {
    return 0;
  }
  static const struct { int domain; uint32_t cbid; } wanted[] = {{1, 307}, {1, 442}, {1, 477}, {1, 514}, {1, 515}, {1, 652}, {1, 653},
                                                                 {3, 1}, {3, 5}, {3, 13}, {3, 18}, {3, 20}, {6, 1}, {6, 2}, {6, 3}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) cu.callback(1, subscriber, wanted[i].domain, wanted[i].cbid);
  for (; n_pool < BUFFERS; n_pool++)
    if (posix_memalign((void **)&pool[n_pool], 8, SIZE)) abort();
  static const int kinds[] = {10, 1, 2};
  if (v2) cu.reg2(subscriber, request2, complete2); else cu.reg(request, complete);
  for (int i = 0; i < 3; i++) v2 ? cu.enable2(subscriber, kinds[i], NULL) : cu.enable(kinds[i]);
  pthread_create(&flusher, NULL, flush_on, NULL);
  pthread_create(&reader, NULL, read_on, NULL);
  atexit(report);
  return 1;
}

// NVTX.
static int push(const char *s) { return s && *s ? (int)count.pushes++ : -1; }
static int push_ex(const uint8_t *a) {
  const void *m;
  memcpy(&m, a + 40, sizeof m);
  return m ? (int)count.pushes++ : -1;
}
static int pop(void) { return (int)count.pops++; }
static void payload(const uint8_t *data, size_t n);
static int domain_push(void *domain, const uint8_t *a) {
  if (g32(a, 16) == 0xDFBD0009u) payload((const uint8_t *)(uintptr_t)g64(a, 24), g32(a, 20));
  return domain && g32(a, 32) == 3 ? push_ex(a) : -1;
}
static int domain_pop(void *domain) { return domain ? pop() : -1; }
static void *make_domain(const char *name) {
  count.domains++;
  return strdup(name);
}
static void *register_string(void *domain, const char *s) {
  count.registered += domain != NULL;
  return strdup(s);
}

EXPORT int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
  const struct { size_t size; int (*module)(int, void ***, unsigned *); } *callbacks = table(1);
  void **slots = NULL;
  unsigned n = 0;
  if (!callbacks->module(1, (void ***)&slots, &n) || n < 12) return 0;
  *(void **)slots[8] = push_ex, *(void **)slots[9] = push, *(void **)slots[11] = pop;
  if (!callbacks->module(5, (void ***)&slots, &n) || n < 13) return 0;
  *(void **)slots[4] = domain_push, *(void **)slots[5] = domain_pop;
  *(void **)slots[10] = register_string, *(void **)slots[12] = make_domain;
  return 1;
}

// NVTX's payload extension. A payload's bytes are read, so that sanitizers see where they end.
static void payload(const uint8_t *data, size_t n) {
  for (size_t i = 0; i < n; i++, data += 24) {
    const uint8_t *bytes;
    memcpy(&bytes, data + 16, sizeof bytes);
    for (uint64_t k = 0; k < g64(data, 8); k++) count.payloads += bytes[k] == 0xab;
  }
}
static int payload_push(void *domain, const uint8_t *data, size_t n) { return payload(data, n), domain ? (int)count.pushes++ : -1; }
static int payload_pop(void *domain, const uint8_t *data, size_t n) { return payload(data, n), domain ? pop() : -1; }
static uint64_t register_schema(void *domain, const void *s) {
  count.schemas += domain && s;
  return 1;
}

EXPORT int InitializeInjectionNvtxExtension(const uint8_t *module) {
  const uint8_t *segment;
  intptr_t *functions;
  memcpy(&segment, module + 16, sizeof segment);
  memcpy(&functions, segment + 16, sizeof functions);
  functions[0] = functions[1] = (intptr_t)register_schema;
  functions[3] = (intptr_t)payload_push, functions[4] = (intptr_t)payload_pop;
  return 1;
}

EXPORT uint64_t kernhes_unacknowledged(void) { return getenv("CLIENT_UNACKNOWLEDGED") && ending ? 7 : 0; }
