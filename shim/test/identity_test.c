// What HELLO says of a process: settings, launchers' variables, the session leader, and GPUs as a driver describes them.
#include "capture/identity.h"

#include "check.h"
#include "host/env.h"
#include "transport/pairs.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// value finds a key among encoded pairs; "" if it is not there. What it returns lasts until the next call.
static const char *value(const struct bytes *pairs, const char *key) {
  static char text[4097];
  for (size_t at = 0; at + 8 <= pairs->used;) {
    uint16_t key_length;
    uint32_t length;
    memcpy(&key_length, pairs->data + at, 2);
    memcpy(&length, pairs->data + at + 4, 4);
    at += 8;
    if (key_length == strlen(key) && memcmp(pairs->data + at, key, key_length) == 0) {
      memcpy(text, pairs->data + at + key_length, length);
      text[length] = 0;
      return text;
    }
    at += key_length + length;
  }
  return "";
}

#define SAYS(key, want) CHECK(strcmp(value(&pairs, key), want) == 0)

static void load_driver(void) {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
  CHECK(n > 0);
  path[n] = 0;
  strcpy(strrchr(path, '/') + 1, "libcuda.so.1");
  CHECK(dlopen(path, RTLD_NOW) != NULL);
}

static struct bytes say(void) {
  struct bytes pairs = {0};
  identity_pairs(&pairs);
  return pairs;
}

int main(void) {
  char number[32];
  unsetenv("KERNHES_RUN");
  unsetenv("KERNHES_RANK");
  setenv("SLURM_JOB_ID", "1234", 1);
  setenv("RANK", "3", 1);
  setenv("CUDA_VISIBLE_DEVICES", "2,GPU-aaa,MIG-1b2c3d4e-0000-4000-8000-0123456789ab", 1);
  env_load();
  load_driver();
  struct bytes pairs = say();
  SAYS("run", ""); // the collector finds it
  SAYS("rank", "");
  SAYS("env.SLURM_JOB_ID", "1234");
  SAYS("env.RANK", "3");
  SAYS("env.WORLD_SIZE", "");
  snprintf(number, sizeof number, "%d", (int)getsid(0));
  SAYS("leader.pid", number);
  CHECK_EQUAL(strlen(value(&pairs, "boot_id")), 36);
  CHECK(*value(&pairs, "parent.start") != 0);
  SAYS("gpu.0.pci", "0000:12:00.0");
  SAYS("gpu.0.uuid", "GPU-12121212-1212-1212-1212-121212121212");
  SAYS("gpu.1.pci", "aaa0:00:00.0");
  SAYS("gpu.1.uuid", "GPU-aaa00000-0000-0000-0000-000000000000");
  SAYS("gpu.2.pci", "0000:10:00.0");
  SAYS("gpu.2.uuid", "MIG-1b2c3d4e-0000-4000-8000-0123456789ab");
  SAYS("gpu.3.uuid", "");
  free(pairs.data);

  char longer[2000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  setenv("TORCHELASTIC_RUN_ID", longer, 1);
  pairs = say();
  CHECK_EQUAL(strlen(value(&pairs, "env.TORCHELASTIC_RUN_ID")), 512);
  free(pairs.data);
  return 0;
}
