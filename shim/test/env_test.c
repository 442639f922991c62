// Settings: defaults, ranges, nonsense. They are read once a process, so each case is a child.
#include "capture/attach.h"
#include "check.h"
#include "entry/utf8.h"
#include "host/env.h"
#include "host/threads.h"
#include "transport/pairs.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void number(const char *name, const char *value, enum env_name which, uint64_t want) {
  pid_t child = fork();
  if (child == 0) {
    if (value != NULL) setenv(name, value, 1);
    env_load();
    CHECK_EQUAL(env_number(which), want);
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK_EQUAL(status, 0);
}

static void text(const char *name, const char *value, enum env_name which, const char *want) {
  pid_t child = fork();
  if (child == 0) {
    if (value != NULL) setenv(name, value, 1);
    env_load();
    setenv(name, "changed later", 1);
    env_load();
    CHECK(strcmp(env_text(which), want) == 0);
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK_EQUAL(status, 0);
}

// Linked with --wrap: as glibc answers a process that runs with more rights than its user.
static bool privileged;
char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name) { return privileged ? NULL : __real_secure_getenv(name); }

static void cpus(const char *list, int want) {
  cpu_set_t set;
  CHECK_EQUAL(threads_cpus(list, &set), want > 0);
  if (want > 0) CHECK_EQUAL(CPU_COUNT(&set), want);
}

static void hes(const char *setting, uint32_t version, bool want) {
  char why[256];
  CHECK_EQUAL(attach_wants_hes(setting, version, why, sizeof why), want);
  CHECK((*why != 0) == (!want && strcmp(setting, "off") != 0));
}

// table holds rows of each kind of the table that the documentation has.
static void table(void) {
  static const char *const rows[] = {
      "| variable | default | range | meaning |\n| --- | --- | --- | --- |\n| `KERNHES_ENDPOINT` | `unix:///run/kernhes/kernhes.sock` | text | where ",
      "\n| `KERNHES_RUN` | | text | name of ", "\n| `KERNHES_BUFFER_MB` | `128` | 1 to 16384 | MiB that ",
      "\n| `KERNHES_LINGER_MS` | `200` | 0 to 3600000 | ms for ", "\n| `KERNHES_HES` | `off` | off, on, auto | the "};
  static char text[1 << 16];
  FILE *f = popen(SETTINGS, "r");
  CHECK(f != NULL);
  size_t n = fread(text, 1, sizeof text - 1, f), lines = 0;
  CHECK(n > 0 && pclose(f) == 0 && strlen(text) == n);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) CHECK(strstr(text, rows[i]) != NULL);
  for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++) lines++;
  CHECK_EQUAL(lines, 2 + ENV_COUNT);
}

int main(void) {
  table();
  number("KERNHES_BUFFER_MB", NULL, ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "1", ENV_BUFFER_MB, 1);
  number("KERNHES_BUFFER_MB", "0", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "16384", ENV_BUFFER_MB, 16384);
  number("KERNHES_BUFFER_MB", "16385", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "99999999", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "99999999999999999999999", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "-5", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "12x", ENV_BUFFER_MB, 128);
  number("KERNHES_BUFFER_MB", "", ENV_BUFFER_MB, 128);
  number("KERNHES_FLUSH_MS", "250", ENV_FLUSH_MS, 250);
  text("KERNHES_TOKEN", "s3cret", ENV_TOKEN, "s3cret");
  text("KERNHES_HES", NULL, ENV_HES, "off");
  text("KERNHES_HES", "on", ENV_HES, "on");
  text("KERNHES_HES", "o", ENV_HES, "off");
  text("KERNHES_HES", "on|off", ENV_HES, "off");
  text("KERNHES_ENDPOINT", "tcp://host:1", ENV_ENDPOINT, "tcp://host:1");
  text("KERNHES_RUN", NULL, ENV_RUN, "");

  privileged = true; // its user must not have it load a library, read a file, or connect
  text("KERNHES_CUPTI", "/tmp/mine.so", ENV_CUPTI, "");
  text("KERNHES_CUDA_NEXT", "/tmp/mine.so", ENV_CUDA_NEXT, "");
  text("KERNHES_MANIFEST", "/etc/shadow", ENV_MANIFEST, "");
  text("KERNHES_TOKEN_FILE", "/etc/shadow", ENV_TOKEN_FILE, "");
  text("KERNHES_ENDPOINT", "tcp://host:1", ENV_ENDPOINT, "unix:///run/kernhes/kernhes.sock");
  number("KERNHES_BUFFER_MB", "1", ENV_BUFFER_MB, 128);
  privileged = false;

  cpus("0", 1);
  cpus("0-3,8", 5);
  cpus("8-10", 3);
  cpus("", 0);
  cpus("3-1", 0);
  cpus("1,", 0);
  cpus("a", 0);
  cpus("0-99999", 0);

  hes("auto", 130401, false); // not seen on hardware yet, so only on request
  hes("auto", 130500, false);
  hes("auto", 24, false);
  hes("on", 26, true);
  hes("on", 24, false);
  hes("off", 130500, false);

  char utf8[16];
  CHECK_EQUAL(utf8_from_wide(L"a\u00e4\u20ac\U0001f600", utf8, sizeof utf8), 10);
  CHECK(memcmp(utf8, "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10) == 0);
  CHECK_EQUAL(utf8_from_wide(L"a\u00e4\u20ac", utf8, 5), 3); // whole characters only

  struct bytes pairs = {0}, more = {0};
  pairs_set(&pairs, "mode", "off");
  pairs_set(&pairs, "rank", "3");
  pairs_set(&more, "mode", "software");
  pairs_merge(&pairs, more.data, (uint32_t)more.used);
  CHECK_EQUAL(pairs.used, 8 + 4 + 1 + 8 + 4 + 8);
  CHECK(memcmp(pairs.data + 8, "rank3", 5) == 0 && memcmp(pairs.data + 21, "modesoftware", 12) == 0);
  for (int i = 0; i < 300; i++) {
    char key[16];
    snprintf(key, sizeof key, "key%d", i);
    pairs_set(&pairs, key, "");
  }
  size_t full = pairs.used;
  pairs_set(&pairs, "another", "");
  CHECK_EQUAL(pairs.used, full);
  bytes_free(&pairs);
  bytes_free(&more);
  return 0;
}
