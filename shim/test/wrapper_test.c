// The wrapper before CUDA's launches of graphs and captures: it calls on with what it is given, notes who is inside, and
// counts captures, from before they begin until they have ended.
#include "capture/edge.h"
#include "capture/events.h"
#include "capture/replayers.h"
#include "check.h"
#include "entry/wrapper.h"

#include <dlfcn.h>
#include <string.h>

extern int wrapped_result, wrapped_calls;
extern void *wrapped_first, *wrapped_second;
extern void (*wrapped_inside)(void);

int cudaGraphLaunch(void *exec, void *stream);
int cudaGraphLaunch_ptsz(void *exec, void *stream);
int cudaStreamBeginCapture(void *stream, int mode);
int cuStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);
int cuStreamEndCapture(void *stream, void **graph);
int cudaStreamBeginCaptureToGraph(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode);
int cuStreamBeginCaptureToGraph(void *stream, void *graph, const void *on, const void *edges, size_t count, int mode);

// Linked with --wrap: each function is looked for once.
static int looked;
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
  looked++;
  return __real_dlsym(handle, name);
}

static uint32_t capturing, calling;
static bool wrapped;

static void inside(void) {
  uint32_t one;
  capturing = replayers_capturing();
  calling = replayers_free(true, &one);
  wrapped = self.wrapped;
}

static char a[16], b;

static void passed(const void *first, const void *second, int calls) {
  CHECK(wrapped_first == first && wrapped_second == second && wrapped_calls == calls);
  CHECK(!self.wrapped);
}

static void launches(bool on) {
  wrapped_calls = 0;
  wrapped_result = 719;
  CHECK_EQUAL(cudaGraphLaunch(a, &b), 719);
  passed(a, &b, 1);
  CHECK(wrapped == on && calling == on);
  uint32_t one;
  CHECK_EQUAL(replayers_free(true, &one), 0); // it is outside again
  CHECK_EQUAL(cudaGraphLaunch_ptsz(a, &b), 500); // which this runtime lacks
  CHECK_EQUAL(wrapped_calls, 1);
}

static void captures(bool on) {
  void *graph = NULL;
  wrapped_calls = wrapped_result = 0;
  CHECK_EQUAL(cudaStreamBeginCapture(a, 2), 0);
  passed(a, (void *)2, 1);
  CHECK(capturing == on && calling == on && replayers_capturing() == on);
  CHECK_EQUAL(cudaStreamBeginCaptureToGraph(&b, a, NULL, NULL, 3, 4), 0);
  passed(&b, a + 7, 2);
  CHECK(capturing == 2u * on && replayers_capturing() == 2u * on);
  CHECK_EQUAL(cudaStreamEndCapture(a, &graph), 0);
  passed(a, &graph, 3);
  CHECK(capturing == 2u * on && replayers_capturing() == on); // until it has ended
  wrapped_result = 901;
  CHECK_EQUAL(cudaStreamEndCapture(&b, &graph), 901); // one that failed has ended, too
  CHECK_EQUAL(replayers_capturing(), 0);
  CHECK_EQUAL(cudaStreamBeginCapture(a, 1), 901); // and one that did not begin is none
  CHECK(capturing == on && replayers_capturing() == 0);
  CHECK_EQUAL(cudaStreamBeginCaptureToGraph(&b, a, NULL, NULL, 0, 0), 901);
  CHECK_EQUAL(replayers_capturing(), 0);
  CHECK(cuStreamBeginCapture(a, 1) == 500 && cuStreamEndCapture(a, &graph) == 500);
  CHECK_EQUAL(cuStreamBeginCaptureToGraph(&b, a, NULL, NULL, 0, 0), 500);
  CHECK_EQUAL(replayers_capturing(), 0);
}

int main(void) {
  wrapped_inside = inside;
  launches(false); // not in the mode windows: it only calls on
  captures(false);
  CHECK(!edge_wrapped());
  wrapper_stands();
  CHECK(edge_wrapped());
  edge_enable();
  looked = 0;
  wrapped_result = 0;
  cudaGraphLaunch(a, &b);
  CHECK_EQUAL(looked, 0); // they were found before
  launches(true);
  captures(true);
  return 0;
}
