// The least that software tracing can cost: a CUPTI client that asks for kernels, copies and memsets, and drops every
// buffer. It is injected as libkernhes is. With BARE=idle it does nothing at all.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SIZE (1u << 20)

static void *library;

static void request(uint8_t **buffer, size_t *size, size_t *records) {
  *records = 0;
  *size = SIZE;
  *buffer = aligned_alloc(8, SIZE);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size, (void)valid;
  free(buffer);
}

static void callback(void *user, int domain, uint32_t id, const void *data) { (void)user, (void)domain, (void)id, (void)data; }

__attribute__((visibility("default"))) int InitializeInjection(void) {
  static const int kinds[] = {10, 1, 2}; // CONCURRENT_KERNEL, MEMCPY, MEMSET
  void *subscriber;
  if (getenv("BARE") != NULL) return 1;
  library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) library = dlopen("libcupti.so.13", RTLD_NOW);
  if (library == NULL) return 1;
  int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *) =
      (int (*)(void **, void (*)(void *, int, uint32_t, const void *), void *))dlsym(library, "cuptiSubscribe");
  int (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)) =
      (int (*)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t)))dlsym(
          library, "cuptiActivityRegisterCallbacks");
  int (*enable)(int) = (int (*)(int))dlsym(library, "cuptiActivityEnable");
  if (subscribe(&subscriber, callback, NULL) != 0 || register_callbacks(request, complete) != 0) return 1;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) enable(kinds[i]);
  return 1;
}
