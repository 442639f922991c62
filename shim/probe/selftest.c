// kernhes-selftest, which kernhes selftest runs: an engine in plain C that counts its own kernels. It uses the driver's API and
// PTX, with no header and no library of CUDA's.
//   kernhes-selftest SECONDS NODES
// Each step runs NODES kernels, by turns as a replay of a graph and as eager launches, behind a kernel that holds the stream until
// all is launched, between two events. The thread waits for each step. It prints lines of NAME=VALUE:
//   gpu=NAME              of device 0
//   step=SEQ KIND LAUNCHES KERNELS HOST_NS EVENT_NS   a step: launches and kernels in its range; EVENT_NS 0: not measured
//   kernels=N             of the whole process, those that no step has too
// Exit code 2: there is no driver or no GPU; 3: a call of CUDA failed.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nvtx.h"

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry kernhes_selftest(.param .u64 cycles) {\n"
    "  .reg .u64 %begin, %now, %passed, %want;\n  .reg .pred %more;\n"
    "  ld.param.u64 %want, [cycles];\n  mov.u64 %begin, %clock64;\n"
    "LOOP:\n  mov.u64 %now, %clock64;\n  sub.u64 %passed, %now, %begin;\n  setp.lt.u64 %more, %passed, %want;\n"
    "  @%more bra LOOP;\n  ret;\n}\n";

enum { KERNEL_NS = 5000, HOLD_NS = 3000000 };
static void *function;
static unsigned long kernels;

static uint64_t tick(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *call, int result) {
  fprintf(stderr, "%s: %d\n", call, result);
  fflush(stdout);
  _exit(3);
}

// The driver's functions, where a preloaded library may stand before them.
static void *symbol(const char *name) {
  void *s = dlsym(RTLD_DEFAULT, name);
  if (s == NULL) fail(name, -1);
  return s;
}

#define CU(name, types, ...)                                        \
  do {                                                              \
    int result = ((int (*) types)symbol(#name))(__VA_ARGS__);       \
    if (result != 0) fail(#name, result);                           \
  } while (0)

static void spin(void *stream, uint64_t cycles) {
  void *params[] = {&cycles};
  CU(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), function, 1, 1, 1,
     32, 1, 1, 0, stream, params, NULL);
}

static void *capture(void *stream, unsigned nodes) {
  void *graph, *exec;
  CU(cuStreamBeginCapture_v2, (void *, int), stream, 1);
  nvtx_push("captured");
  for (unsigned i = 0; i < nodes; i++) spin(stream, KERNEL_NS);
  nvtx_pop();
  CU(cuStreamEndCapture, (void *, void **), stream, &graph);
  CU(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long), &exec, graph, 0);
  CU(cuGraphDestroy, (void *), graph);
  return exec;
}

static void step(unsigned long seq, void *exec, unsigned nodes, void *stream, void *events[2]) {
  char text[64];
  bool graph = exec != NULL;
  snprintf(text, sizeof text, "step:%s seq=%lu", graph ? "graph" : "eager", seq);
  uint64_t began = tick();
  nvtx_push(text);
  spin(stream, HOLD_NS);
  CU(cuEventRecord, (void *, void *), events[0], stream);
  if (graph) CU(cuGraphLaunch, (void *, void *), exec, stream);
  for (unsigned i = 0; i < nodes && !graph; i++) spin(stream, KERNEL_NS);
  CU(cuEventRecord, (void *, void *), events[1], stream);
  nvtx_pop();
  CU(cuStreamSynchronize, (void *), stream);
  uint64_t host = tick() - began;
  kernels += nodes + 1;
  float ms = 0;
  int (*elapsed)(float *, void *, void *) = (int (*)(float *, void *, void *))dlsym(RTLD_DEFAULT, "cuEventElapsedTime");
  if (elapsed == NULL || elapsed(&ms, events[0], events[1]) != 0) ms = 0;
  printf("step=%lu %s %u %u %llu %.0f\n", seq, graph ? "graph" : "eager", graph ? 2 : nodes + 1, nodes + 1, (unsigned long long)host, (double)ms * 1e6);
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 5;
  unsigned nodes = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
  void *context, *module, *stream, *events[2];
  int count = 0;
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  if (((int (*)(unsigned))symbol("cuInit"))(0) != 0 || ((int (*)(int *))symbol("cuDeviceGetCount"))(&count) != 0 || count == 0)
    return fprintf(stderr, "no GPU that CUDA can use\n"), 2;
  char name[100] = "";
  CU(cuDeviceGetName, (char *, int, int), name, (int)sizeof name, 0);
  printf("gpu=%s\n", name);
  CU(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
  CU(cuCtxSetCurrent, (void *), context);
  nvtx_open();
  CU(cuModuleLoadData, (void **, const void *), &module, ptx);
  CU(cuModuleGetFunction, (void **, void *, const char *), &function, module, "kernhes_selftest");
  nvtx_push("engine"); // the first range, with a context: captures are heard from here on
  nvtx_pop();
  CU(cuStreamCreate, (void **, unsigned), &stream, 1);
  for (int i = 0; i < 2; i++) CU(cuEventCreate, (void **, unsigned), &events[i], 0);
  void *exec = capture(stream, nodes);
  uint64_t end = tick() + (uint64_t)(seconds * 1e9);
  for (unsigned long i = 0; tick() < end; i++) step(i, i % 2 == 0 ? exec : NULL, nodes, stream, events);
  if (((int (*)(void))symbol("cuCtxSynchronize"))() != 0) fail("cuCtxSynchronize", -1);
  printf("kernels=%lu\n", kernels);
  fflush(stdout);
  return 0;
}
