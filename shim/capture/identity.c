// Identity: settings, what launchers left in the environment, and what the kernel and the driver know. The collector decides
// from it which run and rank this is: evidence that comes later, and other processes, count too.
#include "capture/identity.h"

#include "capture/cupti.h"
#include "capture/gpus.h"
#include "host/descriptor.h"
#include "host/env.h"
#include "transport/pairs.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define MAX_VARIABLE 512 // bytes of a launcher's variable that count

static void put(struct bytes *pairs, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put(struct bytes *pairs, const char *key, const char *format, ...) {
  char value[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  if (*value != 0) pairs_set(pairs, key, value);
}

// started_ticks gives when a process started, in clock ticks since boot; 0 if that cannot be read.
static unsigned long long started_ticks(pid_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  const char *at = strrchr(descriptor_text(path, text, sizeof text), ')'); // the name before it may hold anything
  if (at == NULL) return 0;
  at++;
  for (int field = 3; field < 22 && at != NULL; field++) at = strchr(at + 1, ' ');
  return at == NULL ? 0 : strtoull(at, NULL, 10);
}

static unsigned long long process_start(void) {
  char text[65536];
  const char *line = strstr(descriptor_text("/proc/stat", text, sizeof text), "btime ");
  long hertz = sysconf(_SC_CLK_TCK);
  if (line == NULL || hertz <= 0) return 0;
  unsigned long long boot = strtoull(line + 6, NULL, 10), ticks = started_ticks(getpid());
  return boot * 1000000000ull + ticks * (1000000000ull / (unsigned long long)hertz);
}

static void put_process(struct bytes *pairs, const char *name, pid_t pid) {
  char key[32];
  snprintf(key, sizeof key, "%s.pid", name);
  put(pairs, key, "%d", (int)pid);
  snprintf(key, sizeof key, "%s.start", name);
  put(pairs, key, "%llu", started_ticks(pid));
}

// put_launch says who started this process. All ranks of one start have the same session leader; its start time keeps a
// reused pid apart.
static void put_launch(struct bytes *pairs) {
  static const char *const variables[] = {
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
      "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_RESTART_COUNT", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
      "SLURM_PROCID", "SLURM_LOCALID", "PBS_JOBID", "LSB_JOBID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
      "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    char key[64];
    const char *value = secure_getenv(variables[i]);
    snprintf(key, sizeof key, "env.%s", variables[i]);
    if (value != NULL) put(pairs, key, "%.*s", MAX_VARIABLE, value);
  }
  char boot[64];
  descriptor_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  boot[strcspn(boot, "\n")] = 0;
  put(pairs, "boot_id", "%s", boot);
  put_process(pairs, "leader", getsid(0));
  put_process(pairs, "parent", getppid());
}

static void put_engine(struct bytes *pairs) {
  char path[4096];
  if (*env_text(ENV_ENGINE) != 0) {
    put(pairs, "engine", "%s", env_text(ENV_ENGINE));
    return;
  }
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  const char *slash = strrchr(path, '/');
  put(pairs, "engine", "%s", slash == NULL ? path : slash + 1);
}

static void put_devices(struct bytes *pairs) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == NULL) return;
  int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
  int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
  int (*get)(int *, int) = (int (*)(int *, int))dlsym(driver, "cuDeviceGet");
  int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetName");
  int (*uuid)(uint8_t *, int) = (int (*)(uint8_t *, int))dlsym(driver, "cuDeviceGetUuid_v2");
  if (uuid == NULL) uuid = (int (*)(uint8_t *, int))dlsym(driver, "cuDeviceGetUuid");
  int (*pci)(char *, int, int) = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetPCIBusId");
  int number, devices = 0;
  if (version != NULL && version(&number) == 0) put(pairs, "driver_version", "%d", number);
  if (count == NULL || get == NULL || count(&devices) != 0) return;
  for (int i = 0; i < devices && i < 64; i++) {
    int device;
    char key[32], text[256] = "";
    uint8_t id[16];
    if (get(&device, i) != 0) continue;
    snprintf(key, sizeof key, "gpu.%d.name", i);
    if (name != NULL && name(text, sizeof text, device) == 0) put(pairs, key, "%s", text);
    bool instance = strstr(text, " MIG ") != NULL; // as "NVIDIA H200 MIG 1g.18gb": its UUID is the instance's
    char bus[32] = "";
    snprintf(key, sizeof key, "gpu.%d.pci", i);
    if (pci != NULL && pci(bus, sizeof bus, device) == 0) {
      gpus_lower(bus);
      put(pairs, key, "%s", bus);
    }
    if (uuid == NULL || uuid(id, device) != 0) continue;
    char hex[40];
    int n = 0;
    for (int k = 0; k < 16; k++) {
      n += snprintf(hex + n, sizeof hex - (size_t)n, k == 4 || k == 6 || k == 8 || k == 10 ? "-%02x" : "%02x", id[k]);
    }
    snprintf(key, sizeof key, "gpu.%d.uuid", i);
    put(pairs, key, "%s-%s", instance ? "MIG" : "GPU", hex);
  }
  dlclose(driver);
}

void identity_pairs(struct bytes *pairs) {
  const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
  char host[256] = "", gpus[1024];
  gethostname(host, sizeof host - 1);
  put(pairs, "run", "%s", env_text(ENV_RUN));
  put(pairs, "rank", "%s", env_text(ENV_RANK));
  put_launch(pairs);
  put(pairs, "pid", "%d", (int)getpid());
  put(pairs, "process_start", "%llu", process_start());
  put(pairs, "host", "%s", host);
  put_engine(pairs);
  put(pairs, "engine_version", "%s", env_text(ENV_ENGINE_VERSION));
  put(pairs, "model", "%s", env_text(ENV_MODEL));
  if (cupti.version != 0) put(pairs, "cupti_version", "%u", cupti.version);
  put(pairs, "cupti_path", "%s", cupti.path);
  put(pairs, "visible_devices", "%s", visible != NULL ? visible : "");
  put(pairs, "shim_version", IDENTITY_SHIM_VERSION);
  put(pairs, "host.gpus", "%s", gpus_of_host(NULL, gpus, sizeof gpus));
  put_devices(pairs);
}

void identity_mode(struct bytes *pairs, const struct mode_state *mode) {
  pairs_set(pairs, "mode", mode_name(mode->mode));
  pairs_set(pairs, "mode_reason", mode->reason);
  pairs_set(pairs, "subscribed", mode->subscribed ? "1" : "0");
  if (*mode->windows != 0) pairs_set(pairs, "window_state", mode->windows);
}

uint64_t identity_session(void) {
  static uint64_t times;
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, GRND_NONBLOCK) != sizeof id) id = 0;
  // Early at boot there may be no randomness yet: a process's id and start time are unique enough then.
  if (id == 0) id = hash_mix(((uint64_t)getpid() << 32 ^ process_start()) + times++) | 1;
  return id;
}
