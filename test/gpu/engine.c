// An engine in plain C, for windows: threads that push steps and replay graphs, by the driver's API and PTX, with no header and
// no library of CUDA's. It runs on a GPU, and on the mock driver of shim/mock.
//   engine SECONDS WHAT...   WHAT: steps=N (threads with steps; 1), ahead (three steps ahead; else each is waited for), nodes=N (240),
//                            ns=N (of a kernel; 3600), side (a thread that replays a graph and pushes no range), late (threads that
//                            come, launch their first graph and end, without a range), rush (the same, flat out), eager (a thread of
//                            kernels, flat out), capture=0|1|2 (a thread that captures in that mode: global, thread-local, relaxed),
//                            own (steps themselves are captured now and then, their ranges with them), noranges,
//                            busy (a kernel that runs for two seconds, again and again), forks (a thread that forks children, which end),
//                            abrupt (at SIGTERM it exits while its threads run)
// It ends with one line of JSON: {"steps": …, "replays": …, "nodes": …, "captures": …, "invalidated": …, "eager": …}. ENGINE_TIMES names
// a file for the unix ns at which the first thread's steps began, 8 bytes each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../shim/probe/nvtx.h"

static const char ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry spin(.param .u64 cycles) {\n"
    "  .reg .u64 %begin, %now, %passed, %want;\n  .reg .pred %more;\n"
    "  ld.param.u64 %want, [cycles];\n  mov.u64 %begin, %clock64;\n"
    "LOOP:\n  mov.u64 %now, %clock64;\n  sub.u64 %passed, %now, %begin;\n  setp.lt.u64 %more, %passed, %want;\n"
    "  @%more bra LOOP;\n  ret;\n}\n";

static atomic_bool stop, terminated;
static atomic_ulong steps, replays, captures, invalidated, eager;
static bool ahead, noranges, own, abrupt;
static unsigned nodes = 240, n_steps = 1;
static uint64_t ns = 3600;
static void *context, *function;

static uint64_t tick(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The driver's functions, where a preloaded library may stand before them.
static void *symbol(const char *name) {
  void *s = dlsym(RTLD_DEFAULT, name);
  if (s == NULL) fprintf(stderr, "engine: no %s\n", name), _exit(2);
  return s;
}

#define CALL(name, types, ...) (((int (*) types)symbol(#name))(__VA_ARGS__))

static void check(int result, const char *call) {
  if (result == 0) return;
  fprintf(stderr, "engine: %s: %d\n", call, result);
  _exit(3);
}

#define CU(name, types, ...) check(CALL(name, types, __VA_ARGS__), #name)

static void push(const char *text) {
  if (!noranges) nvtx_push(text);
}

static void pop(void) {
  if (!noranges) nvtx_pop();
}

static void *make_stream(void) {
  void *s;
  CU(cuStreamCreate, (void **, unsigned), &s, 1);
  return s;
}

static int spin(void *stream, uint64_t duration) {
  uint64_t cycles = duration; // some 1.7 a ns on a GPU, 1 on the mock
  void *params[] = {&cycles};
  return CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), function, 1,
              1, 1, 32, 1, 1, 0, stream, params, NULL);
}

// capture makes a graph; NULL: the capture was ended by something else.
static void *capture(void *stream, int mode, unsigned count, bool ranges) {
  void *graph, *exec;
  CU(cuStreamBeginCapture_v2, (void *, int), stream, mode);
  if (ranges) push("step:captured");
  bool whole = true;
  for (unsigned i = 0; i < count && whole; i++) {
    if (i % 24 == 0) push("layer");
    whole = spin(stream, ns) == 0;
    if (i % 24 == 23 || i + 1 == count || !whole) pop();
  }
  if (ranges) pop();
  if (CALL(cuStreamEndCapture, (void *, void **), stream, &graph) != 0 || !whole) {
    invalidated++;
    return NULL;
  }
  captures++;
  CU(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long), &exec, graph, 0);
  CU(cuGraphDestroy, (void *), graph);
  return exec;
}

static void destroy(void *exec) { CU(cuGraphExecDestroy, (void *), exec); }
static void replay(void *exec, void *stream) {
  CU(cuGraphLaunch, (void *, void *), exec, stream);
  replays++;
}
static void wait_for(void *stream) { CU(cuStreamSynchronize, (void *), stream); }
static void enter(void) { CU(cuCtxSetCurrent, (void *), context); }

static uint64_t unix_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// relax lets this thread wait for events while another captures in global mode, which CUDA forbids else (error 900).
static void relax(void) {
  int mode = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
  int (*exchange)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuThreadExchangeStreamCaptureMode");
  if (exchange != NULL) check(exchange(&mode), "cuThreadExchangeStreamCaptureMode");
}

static _Atomic(void *) shared_exec; // of threads that never captured

static void *stepping(void *times) {
  enter();
  relax();
  push("engine"); // the first range, with a context: captures are heard from here on
  pop();
  void *stream = make_stream(), *exec = capture(stream, 1, nodes, false), *events[4];
  if (times != NULL) shared_exec = capture(stream, 1, nodes / 4, false);
  for (int i = 0; i < 4; i++) CU(cuEventCreate, (void **, unsigned), &events[i], 2);
  for (unsigned long i = 0; !stop; i++) {
    char text[96];
    snprintf(text, sizeof text, "step:graph seq=%lu,n=%u", i, nodes);
    if (own && i % 100 == 50) { // as an engine that captures what it runs
      void *again = capture(stream, 1, nodes, true);
      if (again != NULL) destroy(exec), exec = again;
    }
    uint64_t began = unix_ns();
    if (times != NULL && times != stdin) fwrite(&began, sizeof began, 1, times);
    push(text);
    replay(exec, stream);
    pop();
    CU(cuEventRecord, (void *, void *), events[i % 4], stream);
    if (!ahead) wait_for(stream);
    else if (i >= 3) CU(cuEventSynchronize, (void *), events[(i + 1) % 4]);
    steps++;
  }
  wait_for(stream);
  return NULL;
}

static void *beside(void *unused) {
  (void)unused;
  enter();
  void *stream = make_stream(), *exec = capture(stream, 1, nodes / 4, false);
  while (!stop) replay(exec, stream), wait_for(stream);
  return NULL;
}


static void *one_late(void *unused) {
  (void)unused;
  enter();
  void *stream = make_stream();
  for (int i = 0; i < 5; i++) replay(shared_exec, stream), wait_for(stream);
  CU(cuStreamDestroy_v2, (void *), stream);
  return NULL;
}

static void *late(void *flat_out) {
  unsigned seed = (unsigned)getpid();
  while (!stop) {
    pthread_t t;
    if (shared_exec == NULL) usleep(1000);
    if (shared_exec == NULL) continue;
    if (flat_out == NULL) usleep(1000 + (unsigned)rand_r(&seed) % 30000);
    if (pthread_create(&t, NULL, one_late, NULL) == 0) pthread_join(t, NULL);
  }
  return NULL;
}

static void *eagerly(void *unused) {
  (void)unused;
  enter();
  void *stream = make_stream();
  while (!stop) {
    for (int i = 0; i < 20; i++) check(spin(stream, ns), "cuLaunchKernel"), eager++;
    wait_for(stream);
  }
  return NULL;
}

static void *capturing(void *mode) {
  enter();
  void *stream = make_stream();
  while (!stop) {
    void *exec = capture(stream, (int)(intptr_t)mode, 48, false);
    if (exec != NULL) replay(exec, stream), usleep(1000), CALL(cuStreamSynchronize, (void *), stream), destroy(exec);
    usleep(2000);
  }
  return NULL;
}

static void *long_ones(void *unused) {
  (void)unused;
  enter();
  void *stream = make_stream();
  while (!stop) check(spin(stream, 2000000000), "cuLaunchKernel"), usleep(2500000);
  return NULL;
}

// forking has children that push a step as their parent does, and end as any program.
static void *forking(void *unused) {
  (void)unused;
  enter();
  while (!stop) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      push("step:child");
      pop();
      _exit(0);
    }
    if (child > 0) waitpid(child, &status, 0);
    if (status != 0) fprintf(stderr, "engine: a child ended with %d\n", status), _exit(4);
    usleep(5000);
  }
  return NULL;
}

static void terminate(int number) { terminated = number != 0; }

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 5;
  pthread_t threads[16];
  struct { void *(*run)(void *); void *with; } jobs[16];
  int count = 0;
  for (int i = 2; i < argc; i++) {
    if (!strncmp(argv[i], "steps=", 6)) n_steps = (unsigned)atoi(argv[i] + 6);
    else if (!strncmp(argv[i], "nodes=", 6)) nodes = (unsigned)atoi(argv[i] + 6);
    else if (!strncmp(argv[i], "ns=", 3)) ns = (uint64_t)atoi(argv[i] + 3);
    else if (!strcmp(argv[i], "ahead")) ahead = true;
    else if (!strcmp(argv[i], "own")) own = true;
    else if (!strcmp(argv[i], "noranges")) noranges = true;
    else if (!strcmp(argv[i], "side")) jobs[count++].run = beside;
    else if (!strcmp(argv[i], "late")) jobs[count].with = NULL, jobs[count++].run = late;
    else if (!strcmp(argv[i], "rush")) jobs[count].with = &stop, jobs[count++].run = late;
    else if (!strcmp(argv[i], "eager")) jobs[count++].run = eagerly;
    else if (!strcmp(argv[i], "abrupt")) abrupt = true;
    else if (!strcmp(argv[i], "forks")) jobs[count++].run = forking;
    else if (!strcmp(argv[i], "busy")) jobs[count++].run = long_ones;
    else if (!strncmp(argv[i], "capture=", 8)) jobs[count].with = (void *)(intptr_t)atoi(argv[i] + 8), jobs[count++].run = capturing;
    else fprintf(stderr, "engine: %s: not known\n", argv[i]), exit(2);
  }
  FILE *times = getenv("ENGINE_TIMES") != NULL ? fopen(getenv("ENGINE_TIMES"), "wb") : stdin; // stdin: no file
  for (unsigned i = 0; i < n_steps; i++) jobs[count].with = i == 0 ? times : NULL, jobs[count++].run = stepping;
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL) fprintf(stderr, "engine: %s\n", dlerror()), exit(2);
  CU(cuInit, (unsigned), 0);
  CU(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
  enter();
  nvtx_open();
  void *module;
  CU(cuModuleLoadData, (void **, const void *), &module, ptx);
  CU(cuModuleGetFunction, (void **, void *, const char *), &function, module, "spin");
  uint64_t end = tick() + (uint64_t)(seconds * 1e9);
  for (int i = count; i-- > 0;) pthread_create(&threads[i], NULL, jobs[i].run, jobs[i].with);
  if (abrupt) signal(SIGTERM, terminate);
  while (tick() < end && !terminated) usleep(10000);
  if (abrupt) exit(0);
  stop = true;
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  if (times != stdin) fclose(times);
  printf("{\"steps\": %lu, \"replays\": %lu, \"nodes\": %u, \"captures\": %lu, \"invalidated\": %lu, \"eager\": %lu}\n", steps, replays, nodes,
         captures, invalidated, eager);
  fflush(stdout);
  return 0;
}
