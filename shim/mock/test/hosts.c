// Processes as engines and their kin are: each takes the shim in as CUDA would, does something that must not harm it, and is
// then looked at: how it ended, and whether the shim had connected to the collector.
// usage: mock-hosts LIBCUPTI LIBKERNHES
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "host.h"

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

static const host_case cases[] = {
    CASE(only_init, 0, 0), CASE(an_engine, 7, 1),            CASE(os_exit, 5, 1),
    CASE(killed, 137, 1),  CASE(child_exits, 0, 1),          CASE(child_launches, 0, 1),
    CASE(executes, 3, 1),  CASE(child_before_context, 0, 1), CASE(child_before_cuda, 0, 1),
    CASE(spawns, 0, 1),    {0},
};

static int accepted(int listener) {
  int n = 0;
  for (struct pollfd p = {.fd = listener, .events = POLLIN}; poll(&p, 1, 0) == 1; n++) close(accept(listener, NULL, NULL));
  return n;
}

// run_all returns how many did not end as they should.
static int run_all(const host_case *c, int listener, int *all) {
  int failed = 0;
  for (; c->name; c++, ++*all) {
    pid_t child = fork();
    if (!child) {
      close(listener);
      alarm(60);
      c->run();
      _exit(WRONG);
    }
    int code = ended(child), connections = accepted(listener);
    if (code == c->code && (c->connections < 0 || connections == c->connections)) continue;
    failed++;
    printf("FAIL %s: ended with %d, want %d; %d connections, want %d\n", c->name, code, c->code, connections, c->connections);
  }
  return failed;
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
  int all = 0, failed = run_all(cases, listener, &all) + run_all(descriptor_cases, listener, &all) + run_all(guest_cases, listener, &all);
  unlink(address.sun_path);
  rmdir(folder);
  printf("hosts: %d cases, %d failed\n", all, failed);
  return failed != 0;
}
