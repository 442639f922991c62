// The least that software tracing can cost: a CUPTI client that asks for kernels, copies and memsets, and drops every
// buffer. It is injected as libkernhes is. BARE says what else it may do: idle: nothing at all; launches: have each launch
// called back as well, since whoever wants to know where a kernel was launched has to; leave: unsubscribe once there is
// a context; finalize: the same, and finalize CUPTI.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1u << 20)
enum { DRIVER_API = 1, RESOURCE = 3, CONTEXT_CREATED = 1 };
static const uint32_t launches[] = {307, 442, 514, 515, 652, 653}; // kernels, graphs, kernels with attributes

typedef void callback_fn(void *, int, uint32_t, const void *);
typedef void request_fn(uint8_t **, size_t *, size_t *);
typedef void complete_fn(void *, uint32_t, uint8_t *, size_t, size_t);

static const int kinds[] = {10, 1, 2}; // CONCURRENT_KERNEL, MEMCPY, MEMSET
#define KINDS (sizeof kinds / sizeof *kinds)
static void *library, *subscriber;
static const char *todo;

static void *symbol(const char *name) { return dlsym(library, name); }

static int activities(const char *call) {
  int (*set)(int) = (int (*)(int))symbol(call), result = 0;
  for (size_t i = 0; i < KINDS; i++) result |= set(kinds[i]);
  return result;
}

static void request(uint8_t **buffer, size_t *size, size_t *records) {
  *records = 0;
  *size = SIZE;
  *buffer = aligned_alloc(8, SIZE);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size, (void)valid;
  free(buffer);
}

static void *leave(void *unused) {
  ((int (*)(uint32_t))symbol("cuptiActivityFlushAll"))(0);
  activities("cuptiActivityDisable");
  ((int (*)(void *))symbol("cuptiUnsubscribe"))(subscriber);
  if (strcmp(todo, "finalize") == 0) ((int (*)(void))symbol("cuptiFinalize"))();
  return unused;
}

static void callback(void *user, int domain, uint32_t id, const void *data) {
  (void)user, (void)domain, (void)data;
  pthread_t thread;
  if (domain != RESOURCE || id != CONTEXT_CREATED || todo == NULL || strcmp(todo, "launches") == 0) return;
  if (pthread_create(&thread, NULL, leave, NULL) == 0) pthread_detach(thread);
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
  todo = getenv("BARE");
  if (todo != NULL && strcmp(todo, "idle") == 0) return 1;
  library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) library = dlopen("libcupti.so.13", RTLD_NOW);
  if (library == NULL) return 1;
  int (*subscribe)(void **, callback_fn *, void *) = (int (*)(void **, callback_fn *, void *))symbol("cuptiSubscribe");
  int (*buffers)(request_fn *, complete_fn *) =
      (int (*)(request_fn *, complete_fn *))symbol("cuptiActivityRegisterCallbacks");
  int (*watch)(uint32_t, void *, int, uint32_t) = (int (*)(uint32_t, void *, int, uint32_t))symbol("cuptiEnableCallback");
  if (subscribe(&subscriber, callback, NULL) != 0 || buffers(request, complete) != 0) return 1;
  watch(1, subscriber, RESOURCE, CONTEXT_CREATED);
  for (size_t i = 0; todo != NULL && strcmp(todo, "launches") == 0 && i < sizeof launches / sizeof *launches; i++)
    watch(1, subscriber, DRIVER_API, launches[i]);
  activities("cuptiActivityEnable");
  return 1;
}
