// Processes as engines and their kin are: each takes the shim in as CUDA would, does something that must not harm it, and is
// then looked at: how it ended, and whether the shim had connected to the collector.
// usage: mock-hosts LIBCUPTI LIBKERNHES
#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../mock.h"

enum { WRONG = 99, PATIENCE_MS = 20000 };

static const char *cupti_path, *shim_path;
static const mock_control *mock;

static void check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  _exit(WRONG);
}
#define CHECK(holds) check(holds, #holds)

// threads counts those of the shim.
static int threads(void) {
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

static bool soon(bool (*holds)(void)) {
  for (int ms = 0; ms < PATIENCE_MS; ms += 10, usleep(10000))
    if (holds()) return true;
  return false;
}

static bool both_run(void) { return threads() == 2; }

// connected tells whether the shim has a socket. Nothing else here has one.
static bool connected(void) {
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

static void init(void) {
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

static void work(void) {
  init();
  mock->context_created(1, 0);
  CHECK(soon(both_run));
  CHECK(soon(connected));
  mock_launch l = {.cbid = 307, .correlation = 1};
  mock->launch_enter(&l), mock->launch_exit(&l);
}

static void leave(int code) {
  mock->exiting();
  exit(code);
}

static int ended(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The cases.
static void only_init(void) {
  init();
  usleep(100000);
  CHECK(threads() == 0 && !connected());
  exit(0);
}
static void an_engine(void) { work(), leave(7); }
static void os_exit(void) { work(), _exit(5); }
static void killed(void) { work(), raise(SIGKILL); }
static void child_exits(void) {
  work();
  pid_t child = fork();
  if (!child) {
    CHECK(threads() == 0 && !connected()); // the copy is closed, and the parent's goes on
    exit(6);                               // handlers and all
  }
  CHECK(ended(child) == 6);
  CHECK(threads() == 2 && connected());
  leave(0);
}
static void child_launches(void) { // CUDA does not work there; nothing that a program tries may end it
  work();
  pid_t child = fork();
  if (!child) {
    mock_launch l = {.cbid = 307, .correlation = 2};
    mock->launch_enter(&l), mock->launch_exit(&l);
    exit(0);
  }
  CHECK(ended(child) == 0);
  leave(0);
}
static void child_before_context(void) {
  init();
  pid_t child = fork();
  if (!child) {
    CHECK(threads() == 0 && !connected());
    exit(0);
  }
  CHECK(ended(child) == 0);
  mock->context_created(1, 0);
  CHECK(soon(both_run) && soon(connected));
  leave(0);
}
static void child_before_cuda(void) { // as a worker that is forked runs the model
  pid_t child = fork();
  if (!child) work(), leave(4);
  CHECK(ended(child) == 4);
  exit(0);
}
static void executes(void) {
  work();
  execl("/bin/sh", "sh", "-c", "for f in /proc/$$/fd/*; do case $(readlink $f) in socket:*|anon_inode:*) exit 9;; esac; done; exit 3", NULL);
}
static void spawns(void) {
  work();
  CHECK(system("exit 3") == 3 << 8);
  CHECK(threads() == 2 && connected());
  leave(0);
}

static const struct {
  const char *name;
  void (*run)(void);
  int code, connections;
} cases[] = {
#define CASE(name, code, connections) {#name, name, code, connections}
    CASE(only_init, 0, 0),    CASE(an_engine, 7, 1),            CASE(os_exit, 5, 1),
    CASE(killed, 137, 1),     CASE(child_exits, 0, 1),          CASE(child_launches, 0, 1),
    CASE(executes, 3, 1),     CASE(child_before_context, 0, 1), CASE(child_before_cuda, 0, 1),
    CASE(spawns, 0, 1),
};

static int accepted(int listener) {
  int n = 0;
  for (struct pollfd p = {.fd = listener, .events = POLLIN}; poll(&p, 1, 0) == 1; n++) close(accept(listener, NULL, NULL));
  return n;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IONBF, 0); // a child that exits must not say our lines again
  cupti_path = argv[1], shim_path = argv[2];
  char folder[] = "/tmp/mock-hosts-XXXXXX", endpoint[64];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!mkdtemp(folder)) return 2;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
  snprintf(endpoint, sizeof endpoint, "unix://%s/s", folder);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) return perror("listen"), 2;
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  setenv("KERNHES_SOFTWARE", "on", 1);
  setenv("KERNHES_POOL_BUFFERS", "4", 1);
  setenv("KERNHES_LINGER_MS", "0", 1);
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pid_t child = fork();
    if (!child) {
      close(listener);
      alarm(60);
      cases[i].run();
      _exit(WRONG);
    }
    int code = ended(child), connections = accepted(listener);
    if (code == cases[i].code && connections == cases[i].connections) continue;
    failed++;
    printf("FAIL %s: ended with %d, want %d; %d connections, want %d\n", cases[i].name, code, cases[i].code, connections, cases[i].connections);
  }
  unlink(address.sun_path);
  rmdir(folder);
  printf("hosts: %zu cases, %d failed\n", sizeof cases / sizeof *cases, failed);
  return failed != 0;
}
