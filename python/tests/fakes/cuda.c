// A stand-in for libcuda.so.1: one stream, whose clock and progress the test sets.
#include <stddef.h>

double fake_now_us;    // recorded by an event
long fake_reached;     // events recorded up to this one, from 1, are done
long fake_recorded;    // so many were
long fake_made;        // events
int fake_capturing;    // what cuStreamIsCapturing says
int fake_record_fails; // result of cuEventRecord
long fake_forbidden;   // queries, and events made, in a mode in which they would break a capture on another thread
void *fake_context;

enum { GLOBAL, THREAD_LOCAL, RELAXED };
static int mode = GLOBAL;

int fake_mode(void) { return mode; }

struct event {
  double us;
  long number;
};
static struct event events[1024];

int cuCtxGetCurrent(void **context) {
  *context = fake_context;
  return 0;
}

int cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = fake_capturing;
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int *with) {
  int before = mode;
  mode = *with;
  *with = before;
  return 0;
}

int cuEventCreate(void **event, unsigned flags) {
  if (flags != 0 || fake_made == 1024) return 1;
  if (mode != RELAXED) fake_forbidden++;
  *event = &events[fake_made++];
  return 0;
}

int cuEventRecord(void *event, void *stream) {
  (void)stream;
  if (fake_record_fails != 0) return fake_record_fails;
  *(struct event *)event = (struct event){fake_now_us, ++fake_recorded};
  return 0;
}

int cuEventQuery(void *event) {
  if (mode != RELAXED) fake_forbidden++;
  return ((struct event *)event)->number <= fake_reached ? 0 : 600;
}

int cuEventElapsedTime(float *ms, void *from, void *to) {
  *ms = (float)((((struct event *)to)->us - ((struct event *)from)->us) / 1000);
  return 0;
}
