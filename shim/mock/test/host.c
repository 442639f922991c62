#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "host.h"

enum { PATIENCE_MS = 20000 };

const char *cupti_path, *shim_path;
const mock_control *mock;

void check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  _exit(WRONG);
}

int threads(void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent *d; (d = readdir(tasks));) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue;
    n += fgets(name, sizeof name, f) && !strncmp(name, "kernhes-", 8);
    fclose(f);
  }
  closedir(tasks);
  return n;
}

bool soon(bool (*holds)(void)) {
  for (int ms = 0; ms < PATIENCE_MS; ms += 10, usleep(10000))
    if (holds()) return true;
  return false;
}

bool both_run(void) { return threads() == 2; }

bool connected(void) {
  DIR *fds = opendir("/proc/self/fd");
  CHECK(fds != NULL);
  bool any = false;
  for (struct dirent *d; (d = readdir(fds));) {
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    any = any || (d->d_name[0] != '.' && !getpeername(atoi(d->d_name), (struct sockaddr *)&peer, &size));
  }
  closedir(fds);
  return any;
}

// busy gives what the shim's threads have used of the CPU, ms.
static long busy(void) {
  long ticks = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent *d; (d = readdir(tasks));) {
    char path[300], name[32];
    long user, system;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue;
    if (fscanf(f, "%*d (%31[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", name, &user, &system) == 3 &&
        !strncmp(name, "kernhes-", 8))
      ticks += user + system;
    fclose(f);
  }
  closedir(tasks);
  return ticks * 1000 / sysconf(_SC_CLK_TCK);
}

bool calm(void) {
  long before = busy();
  usleep(500000);
  return busy() - before < 100;
}

void init(void) {
  void *cupti = dlopen(cupti_path, RTLD_NOW | RTLD_GLOBAL);
  CHECK(cupti != NULL);
  mock = dlsym(cupti, MOCK_CONTROL_SYMBOL);
  CHECK(mock != NULL);
  mock->start(true);
  void *shim = dlopen(shim_path, RTLD_NOW | RTLD_LOCAL);
  int (*inject)(void) = NULL;
  if (shim) *(void **)&inject = dlsym(shim, "InitializeInjection");
  CHECK(inject != NULL && inject() == 1);
  mock->driver_initialised();
}

void work(void) {
  init();
  mock->context_created(1, 0);
  CHECK(soon(both_run));
  CHECK(soon(connected));
  mock_launch l = {.cbid = 307, .correlation = 1};
  mock->launch_enter(&l), mock->launch_exit(&l);
}

void leave(int code) {
  mock->exiting();
  exit(code);
}

int ended(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
