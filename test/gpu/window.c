// A tracing window, attached late and detached whole: subscribe, register, enable; flush, disable, unsubscribe, finalize.
// Between the two it counts the kernel records of each graph launch. With WINDOW_DRAIN set what was traced comes to its end
// before CUPTI is finalized; with WINDOW_KEEP set CUPTI is not finalized.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE (1u << 20)
#define LAUNCHES 4096

typedef void callback_fn(void *, int, uint32_t, const void *);
typedef void request_fn(uint8_t **, size_t *, size_t *);
typedef void complete_fn(void *, uint32_t, uint8_t *, size_t, size_t);

static const int kinds[] = {10, 1, 2}; // CONCURRENT_KERNEL, MEMCPY, MEMSET
#define KINDS (sizeof kinds / sizeof *kinds)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint32_t correlation, kernels;
} launches[LAUNCHES];
static uint32_t count, eager, lent, bad;

static int (*next_record)(uint8_t *, size_t, void **);
static void *subscriber;

static void *symbol(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  return library == NULL ? NULL : dlsym(library, name);
}

static void request(uint8_t **buffer, size_t *size, size_t *records) {
  *records = 0;
  *size = SIZE;
  *buffer = aligned_alloc(8, SIZE);
  pthread_mutex_lock(&lock);
  lent++;
  pthread_mutex_unlock(&lock);
}

static void add(const uint8_t *record) {
  uint32_t kind, graph, correlation;
  uint64_t start, end;
  memcpy(&kind, record, 4);
  if (kind != 10) return;
  memcpy(&correlation, record + 92, 4);
  memcpy(&graph, record + 156, 4);
  memcpy(&start, record + 16, 8);
  memcpy(&end, record + 24, 8);
  if (start == 0 || end < start) bad++;
  if (graph == 0) {
    eager++;
    return;
  }
  for (uint32_t i = count; i-- > 0;) {
    if (launches[i].correlation != correlation) continue;
    launches[i].kernels++;
    return;
  }
  if (count == LAUNCHES) return;
  launches[count].correlation = correlation;
  launches[count++].kernels = 1;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  pthread_mutex_lock(&lock);
  for (void *record = NULL; next_record(buffer, valid, &record) == 0;) add(record);
  lent--;
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void callback(void *user, int domain, uint32_t id, const void *data) { (void)user, (void)domain, (void)id, (void)data; }

// window_open attaches; it returns CUPTI's first result that is not 0.
int window_open(void) {
  int (*subscribe)(void **, callback_fn *, void *) = (int (*)(void **, callback_fn *, void *))symbol("cuptiSubscribe");
  int (*buffers)(request_fn *, complete_fn *) =
      (int (*)(request_fn *, complete_fn *))symbol("cuptiActivityRegisterCallbacks");
  int (*enable)(int) = (int (*)(int))symbol("cuptiActivityEnable");
  next_record = (int (*)(uint8_t *, size_t, void **))symbol("cuptiActivityGetNextRecord");
  if (subscribe == NULL) return -1;
  count = eager = bad = 0;
  int result = subscribe(&subscriber, callback, NULL);
  if (result == 0) result = buffers(request, complete);
  for (size_t i = 0; i < KINDS && result == 0; i++) result = enable(kinds[i]);
  return result;
}

static uint32_t out(void) {
  pthread_mutex_lock(&lock);
  uint32_t n = lent;
  pthread_mutex_unlock(&lock);
  return n;
}

// window_close detaches whole; it returns CUPTI's first result that is not 0.
int window_close(void) {
  int (*disable)(int) = (int (*)(int))symbol("cuptiActivityDisable");
  int (*flush)(uint32_t) = (int (*)(uint32_t))symbol("cuptiActivityFlushAll");
  int result = flush(0);
  for (size_t i = 0; i < KINDS; i++) result = result != 0 ? result : disable(kinds[i]);
  for (int i = 0; getenv("WINDOW_DRAIN") != NULL && i < 40 && out() > 0 && result == 0; i++) {
    usleep(5000);
    result = flush(0);
  }
  if (getenv("WINDOW_DRAIN") != NULL && result == 0) result = flush(1);
  int left = ((int (*)(void *))symbol("cuptiUnsubscribe"))(subscriber);
  int finalized = getenv("WINDOW_KEEP") != NULL ? 0 : ((int (*)(void))symbol("cuptiFinalize"))();
  return result != 0 ? result : left != 0 ? left : finalized;
}

// window_launches counts the graph launches that had so many kernels, or, with 0, the eager kernels.
uint32_t window_launches(uint32_t kernels) {
  uint32_t n = 0;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count; i++) n += launches[i].kernels == kernels;
  if (kernels == 0) n = eager;
  pthread_mutex_unlock(&lock);
  return n;
}

uint32_t window_bad(void) { return bad; }
uint32_t window_lent(void) { return lent; }
