// Under LD_PRELOAD our functions stand before the CUDA runtime's and driver's that launch a graph, or begin or end a capture.
// In the mode windows a thread is held there while an edge goes on; else each only calls on. Loaded in another way nobody
// finds them.
#include "entry/wrapper.h"

#include "capture/edge.h"
#include "capture/events.h"
#include "capture/replayers.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_FOUND 500 // cudaErrorSymbolNotFound and CUDA_ERROR_NOT_FOUND

typedef _Atomic(void *) found;

struct looked_for {
  const char *name;
  void *address;
};

// look finds the function in a library that the global scope does not reach: Python's extensions bring theirs along.
static int look(struct dl_phdr_info *info, size_t size, void *to) {
  (void)size;
  struct looked_for *f = to;
  const char *slash = strrchr(info->dlpi_name == NULL ? "" : info->dlpi_name, '/');
  const char *file = slash == NULL ? info->dlpi_name : slash + 1, *library = f->name[2] == 'd' ? "libcudart.so" : "libcuda.so";
  if (file == NULL || strncmp(file, library, strlen(library)) != 0) return 0;
  void *handle = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  if (handle == NULL) return 0;
  f->address = dlsym(handle, f->name);
  dlclose(handle); // it stays: its caller holds it
  return f->address != NULL;
}

static void *next(found *cache, const char *name) {
  void *address = atomic_load_explicit(cache, memory_order_acquire);
  if (address != NULL) return address;
  struct looked_for f = {.name = name, .address = dlsym(RTLD_NEXT, name)};
  if (f.address == NULL) dl_iterate_phdr(look, &f);
  atomic_store_explicit(cache, f.address, memory_order_release);
  return f.address;
}

// enter waits while an edge goes on; false if this call is one of another of ours, or nothing is to be noted.
static bool enter(void) {
  if (self.wrapped || !atomic_load_explicit(&edge_on, memory_order_acquire)) return false;
  edge_enter();
  return true;
}

static int leave(bool entered, int result) {
  if (entered) edge_leave();
  return result;
}

static int launched(found *cache, const char *name, void *exec, void *stream) {
  int (*call)(void *, void *) = (int (*)(void *, void *))next(cache, name);
  if (call == NULL) return NOT_FOUND;
  bool entered = enter();
  return leave(entered, call(exec, stream));
}

// began counts the capture from before the call on.
static int began(bool entered, int result) {
  if (entered && result != 0) replayers_capture(false);
  return leave(entered, result);
}

static bool enter_capture(void) {
  bool entered = enter();
  if (entered) replayers_capture(true);
  return entered;
}

static int ended(found *cache, const char *name, void *stream, void **graph) {
  int (*call)(void *, void **) = (int (*)(void *, void **))next(cache, name);
  if (call == NULL) return NOT_FOUND;
  bool entered = enter();
  int result = call(stream, graph);
  if (entered) replayers_capture(false);
  return leave(entered, result);
}

#define LAUNCH(name) \
  EXPORT int name(void *exec, void *stream); \
  int name(void *exec, void *stream) { \
    static found cache; \
    return launched(&cache, #name, exec, stream); \
  }

#define BEGIN(name) \
  EXPORT int name(void *stream, int mode); \
  int name(void *stream, int mode) { \
    static found cache; \
    int (*call)(void *, int) = (int (*)(void *, int))next(&cache, #name); \
    if (call == NULL) return NOT_FOUND; \
    bool entered = enter_capture(); \
    return began(entered, call(stream, mode)); \
  }

#define BEGIN_TO_GRAPH(name) \
  EXPORT int name(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode); \
  int name(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode) { \
    static found cache; \
    int (*call)(void *, void *, const void *, const void *, size_t, int) = \
        (int (*)(void *, void *, const void *, const void *, size_t, int))next(&cache, #name); \
    if (call == NULL) return NOT_FOUND; \
    bool entered = enter_capture(); \
    return began(entered, call(stream, graph, on, edges, count, mode)); \
  }

#define END(name) \
  EXPORT int name(void *stream, void **graph); \
  int name(void *stream, void **graph) { \
    static found cache; \
    return ended(&cache, #name, stream, graph); \
  }

LAUNCH(cudaGraphLaunch)
LAUNCH(cudaGraphLaunch_ptsz)
LAUNCH(cuGraphLaunch)
LAUNCH(cuGraphLaunch_ptsz)
BEGIN(cudaStreamBeginCapture)
BEGIN(cudaStreamBeginCapture_ptsz)
BEGIN(cuStreamBeginCapture)
BEGIN(cuStreamBeginCapture_ptsz)
BEGIN(cuStreamBeginCapture_v2)
BEGIN(cuStreamBeginCapture_v2_ptsz)
BEGIN_TO_GRAPH(cudaStreamBeginCaptureToGraph)
BEGIN_TO_GRAPH(cudaStreamBeginCaptureToGraph_ptsz)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)
END(cudaStreamEndCapture)
END(cudaStreamEndCapture_ptsz)
END(cuStreamEndCapture)
END(cuStreamEndCapture_ptsz)

void wrapper_stands(void) { edge_wrap(); }
