#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "driver.h"

const mock_control *cupti;
static uint64_t (*client_unacknowledged)(void);

// beside_us is a path in the folder of this program; false: too long.
static bool beside_us(const char *name, char *path, size_t size) {
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return false;
  self[n] = 0;
  *strrchr(self, '/') = 0;
  return snprintf(path, size, "%s/%s", self, name) < (int)size;
}

bool fault_text(const char *name, char *text, size_t size) {
  const char *at = getenv("KERNHES_MOCK_FAULT");
  size_t n = strlen(name);
  for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
    if (strncmp(at, name, n) || (at[n] && at[n] != ',' && at[n] != '=')) continue;
    const char *value = at + n + (at[n] == '=');
    snprintf(text, size, "%.*s", (int)strcspn(value, ","), value);
    return true;
  }
  return false;
}

// copy_without makes a library that really lacks a symbol: its name in the string table is another.
static bool copy_without(const char *symbol, char *path, size_t size) {
  FILE *in = fopen(path, "rb");
  if (!in) return true; // dlopen will say it
  char folder[] = "/tmp/kernhes-play-XXXXXX", *bytes = NULL;
  size_t n = 0, length = strlen(symbol), found = 0;
  if (fseek(in, 0, SEEK_END) == 0 && (bytes = malloc(n = (size_t)ftell(in)))) {
    rewind(in);
    if (fread(bytes, 1, n, in) != n) n = 0;
  }
  fclose(in);
  for (size_t i = 1; bytes && length && i + length < n; i++)
    if (!bytes[i - 1] && !memcmp(bytes + i, symbol, length + 1)) bytes[i] = 'X', found++;
  if (!found || !mkdtemp(folder)) {
    fprintf(stderr, "kernhes-play: %s: no symbol %s that could be missing\n", path, symbol);
    return free(bytes), false;
  }
  char file[64];
  snprintf(file, sizeof file, "%s", strrchr(path, '/') + 1);
  snprintf(path, size, "%s/%s", folder, file);
  FILE *out = fopen(path, "wb");
  bool whole = out && fwrite(bytes, 1, n, out) == n;
  if (out && fclose(out)) whole = false;
  free(bytes);
  return whole;
}

static bool find_cupti(const options *o, uint32_t recorded, char *path, size_t size) {
  const char *given = getenv("KERNHES_MOCK_CUPTI");
  if (given) return snprintf(path, size, "%s", given) < (int)size;
  uint32_t version = o->cupti ? o->cupti : recorded == 26 ? 12080 : recorded == 28 ? 12090 : recorded;
  char name[64];
  snprintf(name, sizeof name, "mock/%u/libcupti.so.%d", version, version < 130000 ? 12 : 13);
  if (!beside_us(name, path, size)) return false;
  if (!access(path, R_OK)) return true;
  if (!o->cupti) return beside_us("mock/libcupti.so.13", path, size);
  fprintf(stderr, "kernhes-play: --cupti %u: no %s\n", version, path);
  return false;
}

bool load_cupti(const options *o, uint32_t recorded) {
  char path[PATH_MAX], symbol[128];
  if (!find_cupti(o, recorded, path, sizeof path)) return false;
  bool copied = fault_text("missing", symbol, sizeof symbol);
  if (copied && !copy_without(symbol, path, sizeof path)) return false;
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); // before the client: it must find this one, and load none
  if (copied) {
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
  }
  if (library) cupti = dlsym(library, MOCK_CONTROL_SYMBOL);
  if (cupti) return true;
  fprintf(stderr, "kernhes-play: %s\n", library ? "that libcupti is not the mock" : dlerror());
  return false;
}

// load_cuda makes the mock driver known, for engines whose GPUs are named: a recording does not say on which it was made.
static void load_cuda(void) {
  char path[PATH_MAX];
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible && *visible && beside_us("mock/libcuda.so.1", path, sizeof path)) dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

bool start_driver(const recording *r) {
  char path[PATH_MAX];
  load_cuda();
  const char *given = getenv("KERNHES_LIB");
  if (given) snprintf(path, sizeof path, "%s", given);
  else if (!beside_us("libkernhes.so", path, sizeof path)) return false;
  setenv("CUDA_INJECTION64_PATH", path, 0);
  setenv("NVTX_INJECTION64_PATH", path, 0);
  const char *injected = getenv("CUDA_INJECTION64_PATH");
  void *library = dlopen(injected, RTLD_NOW | RTLD_LOCAL);
  int (*inject)(void) = NULL;
  if (library) *(void **)&inject = dlsym(library, "InitializeInjection");
  if (!inject) {
    fprintf(stderr, "kernhes-play: %s\n", dlerror());
    return false;
  }
  *(void **)&client_unacknowledged = dlsym(library, "kernhes_unacknowledged");
  inject(); // the driver goes on whatever it returns
  cupti->driver_initialised();
  for (uint32_t i = 0; i < r->n_contexts; i++) cupti->context_created(r->contexts[i].context, r->contexts[i].device);
  if (!r->n_contexts) cupti->context_created(1, 0);
  return true;
}

uint64_t unacknowledged(void) { return client_unacknowledged ? client_unacknowledged() : 0; }
