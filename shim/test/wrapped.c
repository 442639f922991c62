// What stands behind the wrapper in its test: a CUDA runtime that notes how it is called.
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int wrapped_result, wrapped_calls;
EXPORT void *wrapped_first, *wrapped_second;
EXPORT void (*wrapped_inside)(void); // called in each

static int called(void *first, void *second) {
  wrapped_first = first;
  wrapped_second = second;
  wrapped_calls++;
  if (wrapped_inside != NULL) wrapped_inside();
  return wrapped_result;
}

EXPORT int cuGraphLaunch(void *exec, void *stream);
EXPORT int cudaGraphLaunch(void *exec, void *stream);
EXPORT int cudaStreamBeginCapture(void *stream, int mode);
EXPORT int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode);
EXPORT int cudaStreamEndCapture(void *stream, void **graph);

int cuGraphLaunch(void *exec, void *stream) { return called(exec, stream); }
int cudaGraphLaunch(void *exec, void *stream) { return cuGraphLaunch(exec, stream); } // through the wrapper again
int cudaStreamBeginCapture(void *stream, int mode) { return called(stream, (void *)(size_t)mode); }
int cudaStreamEndCapture(void *stream, void **graph) { return called(stream, graph); }
int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode) {
  (void)on, (void)edges;
  return called(stream, (char *)graph + count + mode);
}
