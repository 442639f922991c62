// Identity: settings first, then what the launcher left in the environment, then what the kernel knows.
#include "identity.h"

#include "cupti.h"
#include "descriptor.h"
#include "env.h"
#include "pairs.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

static void put(struct bytes *pairs, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put(struct bytes *pairs, const char *key, const char *format, ...) {
  char value[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  if (*value != 0) pairs_set(pairs, key, value);
}

static const char *first_of(const char *const *names) {
  for (; *names != NULL; names++) {
    const char *value = getenv(*names);
    if (value != NULL && *value != 0) return value;
  }
  return "";
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

static void put_run(struct bytes *pairs) {
  static const char *const jobs[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID",
                                     "LSB_JOBID", "OMPI_MCA_ess_base_jobid", NULL};
  const char *run = env_text(ENV_RUN);
  if (*run == 0) run = first_of(jobs);
  if (*run != 0) {
    put(pairs, "run", "%s", run);
    return;
  }
  // All ranks of one start share a session leader; its start time keeps a reused pid apart.
  char boot[64], text[160];
  pid_t leader = getsid(0);
  int n = snprintf(text, sizeof text, "%s %d %llu", descriptor_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot),
                   (int)leader, started_ticks(leader));
  put(pairs, "run", "%016llx", (unsigned long long)hash_bytes(text, (size_t)n));
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
    if (uuid == NULL || uuid(id, device) != 0) continue;
    char hex[40];
    int n = 0;
    for (int k = 0; k < 16; k++) {
      n += snprintf(hex + n, sizeof hex - (size_t)n, k == 4 || k == 6 || k == 8 || k == 10 ? "-%02x" : "%02x", id[k]);
    }
    snprintf(key, sizeof key, "gpu.%d.uuid", i);
    put(pairs, key, "GPU-%s", hex);
  }
  dlclose(driver);
}

void identity_pairs(struct bytes *pairs) {
  static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
  static const char *const visible[] = {"CUDA_VISIBLE_DEVICES", NULL};
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  put_run(pairs);
  put(pairs, "rank", "%s", *env_text(ENV_RANK) != 0 ? env_text(ENV_RANK) : first_of(ranks));
  put(pairs, "pid", "%d", (int)getpid());
  put(pairs, "process_start", "%llu", process_start());
  put(pairs, "host", "%s", host);
  put_engine(pairs);
  put(pairs, "engine_version", "%s", env_text(ENV_ENGINE_VERSION));
  put(pairs, "model", "%s", env_text(ENV_MODEL));
  if (cupti.version != 0) put(pairs, "cupti_version", "%u", cupti.version);
  put(pairs, "cupti_path", "%s", cupti.path);
  put(pairs, "visible_devices", "%s", first_of(visible));
  put(pairs, "shim_version", IDENTITY_SHIM_VERSION);
  put_devices(pairs);
  put(pairs, "token", "%s", env_text(ENV_TOKEN)); // only HELLO carries these pairs
}

void identity_mode(struct bytes *pairs, const struct mode_state *mode) {
  pairs_set(pairs, "mode", mode_name(mode->mode));
  pairs_set(pairs, "mode_reason", mode->reason);
  pairs_set(pairs, "subscribed", mode->subscribed ? "1" : "0");
}

uint64_t identity_session(void) {
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, GRND_NONBLOCK) != sizeof id) id = 0;
  // Early at boot there may be no randomness yet: a process's id and start time are unique enough then.
  if (id == 0) id = hash_mix((uint64_t)getpid() << 32 ^ process_start()) | 1;
  return id;
}
