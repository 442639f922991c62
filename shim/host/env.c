// Settings: the one table that users' documentation is generated from, and its reader.
// Built with -DKERNHES_ENV_MAIN this file is a program that prints the table as Markdown.
#include "host/env.h"

#include "host/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
  const char *name;
  const char *standard; // default
  const char *choices;  // separated by |; NULL: free text, or a number if highest is not 0
  uint64_t lowest, highest;
  const char *meaning;
};

static const struct setting settings[ENV_COUNT] = {
    [ENV_ENDPOINT] = {"KERNHES_ENDPOINT", "unix:///run/kernhes/kernhes.sock", NULL, 0, 0,
                      "where the collector listens: `unix:///path` or `tcp://host:port`"},
    [ENV_TOKEN] = {"KERNHES_TOKEN", "", NULL, 0, 0,
                   "bearer token for a collector that asks for one (`auth`); sent as it is, said nowhere else"},
    [ENV_TOKEN_FILE] = {"KERNHES_TOKEN_FILE", "", NULL, 0, 0,
                        "path of a file with the token, up to 4,096 bytes; it is read for each connection. KERNHES_TOKEN comes first"},
    [ENV_COLLECTOR_UID] = {"KERNHES_COLLECTOR_UID", "auto", NULL, 0, 0,
                           "users whose process may be the collector at a unix socket, as `0,1000`; auto: the engine's user, root, "
                           "and the owner of the socket's folder; any: all"},
    [ENV_HES] = {"KERNHES_HES", "off", "off|on|auto", 0, 0,
                 "the Hardware Event System of Blackwell GPUs; `auto` means off until HES has been seen on hardware"},
    [ENV_SOFTWARE] = {"KERNHES_SOFTWARE", "off", "off|on|windows", 0, 0,
                      "software tracing where HES is not on, at 1 to 2 µs a kernel; windows: only in windows that the collector orders"},
    [ENV_WINDOWS] = {"KERNHES_WINDOWS", "4000", NULL, 1, 1000000,
                     "windows in the life of the process; CUPTI keeps 75 kB of memory for each"},
    [ENV_SETTLE] = {"KERNHES_SETTLE_STEPS", "200", NULL, 1, 1000000,
                    "step ranges without a new graph capture after which CUPTI is left for the first time; no window opens before"},
    [ENV_WINDOWS_CUPTI] = {"KERNHES_WINDOWS_CUPTI", "tried", "tried|any", 0, 0,
                           "the versions of CUPTI with which windows are opened; tried: 13.0 only"},
    [ENV_RUN] = {"KERNHES_RUN", "", NULL, 0, 0,
                 "name of this start of the engine, the same on all ranks, another for each start; else the collector finds one"},
    [ENV_RANK] = {"KERNHES_RANK", "", NULL, 0, 0, "rank of this process, of its first GPU with steps if it uses several; else the collector finds it"},
    [ENV_ENGINE] = {"KERNHES_ENGINE", "", NULL, 0, 0, "name of the engine; else that of the executable"},
    [ENV_ENGINE_VERSION] = {"KERNHES_ENGINE_VERSION", "", NULL, 0, 0, "version of the engine"},
    [ENV_MODEL] = {"KERNHES_MODEL", "", NULL, 0, 0, "name of the model"},
    [ENV_MANIFEST] = {"KERNHES_MANIFEST", "", NULL, 0, 0,
                      "path of a JSON file, up to 16 MiB, that says what the engine was built from; it is sent whole"},
    [ENV_BUFFER_MB] = {"KERNHES_BUFFER_MB", "128", NULL, 1, 16384,
                       "MiB that may wait for the collector; past it the oldest are dropped and counted"},
    [ENV_POOL_BUFFERS] = {"KERNHES_POOL_BUFFERS", "64", NULL, 1, 4096, "activity buffers lent to CUPTI"},
    [ENV_POOL_BUFFER_KB] = {"KERNHES_POOL_BUFFER_KB", "1024", NULL, 4, 65536, "KiB of one activity buffer"},
    [ENV_EVENTS_KB] = {"KERNHES_EVENTS_KB", "4096", NULL, 64, 1048576,
                       "KiB in which launches and ranges wait for the shim's sender, up to a power of two"},
    [ENV_FLUSH_MS] = {"KERNHES_FLUSH_MS", "100", NULL, 10, 10000, "ms between two flushes of CUPTI's buffers"},
    [ENV_LINGER_MS] = {"KERNHES_LINGER_MS", "200", NULL, 0, 3600000,
                       "ms for which exit waits until the collector has acknowledged all"},
    [ENV_CPUS] = {"KERNHES_CPUS", "", NULL, 0, 0,
                  "CPUs of the shim's two threads, as `0-3,8`; else those that the process had when the shim was loaded"},
    [ENV_CUPTI] = {"KERNHES_CUPTI", "", NULL, 0, 0,
                   "path of a libcupti for a process that has none; else `libcupti.so.13`, then `.12`"},
    [ENV_CUDA_NEXT] = {"KERNHES_CUDA_NEXT", "", NULL, 0, 0,
                       "another CUDA injection library, to be called first"},
    [ENV_NVTX_NEXT] = {"KERNHES_NVTX_NEXT", "", NULL, 0, 0,
                       "another NVTX injection library, which goes on seeing everything"},
    [ENV_LOG] = {"KERNHES_LOG", "0", "0|1", 0, 0, "1: a few lines on stderr"},
};

#ifdef KERNHES_ENV_MAIN

void log_line(const char *format, ...) { (void)format; }
void log_enable(bool on) { (void)on; }

int main(void) {
  puts("| variable | default | range | meaning |\n| --- | --- | --- | --- |");
  for (int i = 0; i < ENV_COUNT; i++) {
    const struct setting *s = &settings[i];
    printf("| `%s` |%s%s%s | ", s->name, *s->standard ? " `" : "", s->standard, *s->standard ? "`" : "");
    if (s->highest != 0) {
      printf("%llu to %llu", (unsigned long long)s->lowest, (unsigned long long)s->highest);
    } else if (s->choices != NULL) {
      for (const char *c = s->choices; *c != 0; c++) fputs(*c == '|' ? ", " : (char[2]){*c, 0}, stdout);
    } else {
      fputs("text", stdout);
    }
    printf(" | %s |\n", s->meaning);
  }
  return 0;
}

#endif

static const char *texts[ENV_COUNT];
static uint64_t numbers[ENV_COUNT];

static bool is_choice(const char *choices, const char *value) {
  size_t n = strchr(value, '|') != NULL ? 0 : strlen(value);
  for (const char *at = choices; n > 0 && at != NULL; at = strchr(at, '|')) {
    if (*at == '|') at++;
    if (strncmp(at, value, n) == 0 && (at[n] == 0 || at[n] == '|')) return true;
  }
  return false;
}

static uint64_t number(const struct setting *s, const char *value) {
  uint64_t standard = strtoull(s->standard, NULL, 10);
  char *end;
  errno = 0;
  uint64_t n = strtoull(value, &end, 10);
  if (end == value || *end != 0 || strchr(value, '-') != NULL) {
    log_line("%s=%s: not a number; %s is used", s->name, value, s->standard);
    return standard;
  }
  if (errno == 0 && n >= s->lowest && n <= s->highest) return n;
  log_line("%s=%s: not from %llu to %llu; %s is used", s->name, value, (unsigned long long)s->lowest, (unsigned long long)s->highest,
           s->standard); // not the nearest: the highest of some are gigabytes, which nobody meant
  return standard;
}

static void read_setting(int i) {
  const struct setting *s = &settings[i];
  const char *value = secure_getenv(s->name); // a process with more rights than its user takes no settings from it
  if (value == NULL || *value == 0) value = s->standard;
  if (s->choices != NULL && !is_choice(s->choices, value)) {
    log_line("%s=%s: not one of %s; %s is used", s->name, value, s->choices, s->standard);
    value = s->standard;
  }
  if (s->highest != 0) numbers[i] = number(s, value);
  // A copy, because the host may change its environment.
  char *copy = value == s->standard ? NULL : strdup(value);
  texts[i] = copy != NULL ? copy : s->standard;
}

static void load(void) {
  read_setting(ENV_LOG); // first: it decides whether the others may complain
  log_enable(strcmp(texts[ENV_LOG], "1") == 0);
  for (int i = 0; i < ENV_LOG; i++) read_setting(i);
}

void env_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
}

const char *env_text(enum env_name name) { return texts[name]; }
uint64_t env_number(enum env_name name) { return numbers[name]; }
