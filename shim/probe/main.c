// kernhes-probe [LIBCUPTI] asks the CUDA driver and CUPTI what kernhes doctor wants to know, and prints NAME=VALUE lines.
// It is a process of its own because a libcupti may be broken, and because HES, once on, stays on.
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>

enum { MAJOR = 75, MINOR = 76, HES_ATTRIBUTE = 13 }; // CUdevice_attribute; CUpti_ActivityAttribute

typedef int set_fn(void *, int, size_t *, void *);

static void *symbol(void *library, const char *name) { return library == NULL ? NULL : dlsym(library, name); }

static void devices(void *driver) {
  int (*count)(int *) = (int (*)(int *))symbol(driver, "cuDeviceGetCount");
  int (*get)(int *, int) = (int (*)(int *, int))symbol(driver, "cuDeviceGet");
  int (*name)(char *, int, int) = (int (*)(char *, int, int))symbol(driver, "cuDeviceGetName");
  int (*attribute)(int *, int, int) = (int (*)(int *, int, int))symbol(driver, "cuDeviceGetAttribute");
  int n = 0;
  if (count == NULL || get == NULL || name == NULL || attribute == NULL || count(&n) != 0) return;
  for (int i = 0; i < n; i++) {
    char text[256] = "";
    int device, major = 0, minor = 0;
    if (get(&device, i) != 0 || name(text, sizeof text, device) != 0) continue;
    attribute(&major, MAJOR, device);
    attribute(&minor, MINOR, device);
    printf("gpu=%d.%d %s\n", major, minor, text);
  }
}

static void *open_cupti(const char *path) {
  const char *tries[] = {path != NULL ? path : "libcupti.so.13", path != NULL ? NULL : "libcupti.so.12"};
  for (int i = 0; i < 2 && tries[i] != NULL; i++) {
    void *library = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    printf("cupti_error=%s\n", dlerror());
  }
  return NULL;
}

// hes tries to turn HES on, as can be done once the driver is up and no context exists, and reads back whether it is.
static void hes(void *library) {
  int (*enable)(uint8_t) = (int (*)(uint8_t))symbol(library, "cuptiActivityEnableHWTrace");
  set_fn *read_back = (set_fn *)symbol(library, "cuptiActivityGetAttribute_v2");
  int (*word)(int, const char **) = (int (*)(int, const char **))symbol(library, "cuptiGetResultString");
  if (enable == NULL) return;
  int result = enable(1);
  const char *text = "";
  if (word != NULL) word(result, &text);
  printf("hes=%d %s\n", result, text);
  uint8_t on = 0;
  size_t size = sizeof on;
  if (read_back != NULL && read_back(NULL, HES_ATTRIBUTE, &size, &on) == 0) printf("hes_on=%d\n", on);
}

int main(int count, char **arguments) {
  void *library = open_cupti(count > 1 ? arguments[1] : NULL);
  int (*version)(uint32_t *) = (int (*)(uint32_t *))symbol(library, "cuptiGetVersion");
  struct link_map *map;
  uint32_t number;
  if (library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) printf("cupti=%s\n", map->l_name);
  if (version != NULL && version(&number) == 0) printf("cupti_version=%u\n", number);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL) {
    printf("driver_error=%s\n", dlerror());
    return 0;
  }
  int (*initialise)(unsigned) = (int (*)(unsigned))symbol(driver, "cuInit");
  int (*driver_version)(int *) = (int (*)(int *))symbol(driver, "cuDriverGetVersion");
  int cuda;
  if (driver_version != NULL && driver_version(&cuda) == 0) printf("driver_version=%d\n", cuda);
  int result = initialise != NULL ? initialise(0) : -1;
  if (result != 0) {
    printf("driver_error=cuInit: %d\n", result);
    return 0;
  }
  devices(driver);
  fflush(stdout); // what is known is said, whatever HES does
  hes(library);
  return 0;
}
