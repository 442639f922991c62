// Engines that close descriptors that are not theirs, use the numbers again, or have few: their files stay as they are.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "host.h"

// That the engine does this to descriptors of another thread is what is tried here: no fault for ThreadSanitizer to find.
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:descriptors.c\n"; }

// An engine's own files, each with its contents and its position at 1.
enum { NUMBERS = 1024, OWN = 64 };
static int own[OWN], owned;

static void put_own(int number) {
  char path[] = "/tmp/mock-hosts-own-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && !unlink(path) && write(fd, "mine", 4) == 4 && lseek(fd, 1, SEEK_SET) == 1);
  if (fd != number) CHECK(dup2(fd, number) == number && !close(fd));
  CHECK(owned < OWN);
  own[owned++] = number;
}

static bool unharmed(void) {
  for (int i = 0; i < owned; i++) {
    char now[16];
    if (lseek(own[i], 0, SEEK_CUR) != 1 || pread(own[i], now, sizeof now, 0) != 4 || memcmp(now, "mine", 4)) return false;
  }
  return true;
}

// shims_socket gives the number of the socket that the shim has; -1: none.
static int shims_socket(void) {
  struct sockaddr_un peer;
  socklen_t size = sizeof peer;
  for (int fd = 3; fd < NUMBERS; fd++, size = sizeof peer)
    if (!getpeername(fd, (struct sockaddr *)&peer, &size)) return fd;
  return -1;
}

static bool disconnected(void) { return shims_socket() < 0; }

static void closes_all(void) {
  work();
  for (int fd = 3; fd < NUMBERS; fd++) close(fd);
  CHECK(soon(connected));
  CHECK(calm());
  for (int fd = 3; fd < NUMBERS; fd++) close(fd);
  CHECK(soon(connected));
  leave(0);
}
static void reuses_all(void) {
  work();
  int number = shims_socket(), open[OWN], n = 0;
  for (int fd = 3; fd < NUMBERS; fd++) {
    if (close(fd)) continue;
    CHECK(n < OWN);
    open[n++] = fd;
  }
  CHECK(n > 0 && number >= 896); // the last eighth of 1,024
  for (int i = 0; i < n; i++) put_own(open[i]);
  for (int fd = 3; fd < 3 + 16; fd++)
    if (fcntl(fd, F_GETFD) == -1) put_own(fd);
  CHECK(soon(connected));
  CHECK(calm() && unharmed() && shims_socket() != number);
  mock_launch l = {.cbid = 307, .correlation = 2};
  mock->launch_enter(&l), mock->launch_exit(&l);
  mock->exiting();
  fork() == 0 ? exit(0) : wait(NULL); // whose copies of them are left alone as well
  CHECK(unharmed());
  exit(0);
}
static void replaces_socket(void) {
  work();
  int pair[2], number = shims_socket();
  CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && send(pair[1], "mine", 4, 0) == 4);
  CHECK(dup2(pair[0], number) == number && !close(pair[0]));
  usleep(300000);
  char now[16];
  CHECK(recv(pair[1], now, sizeof now, MSG_DONTWAIT) == -1 && errno == EAGAIN);
  CHECK(recv(number, now, sizeof now, MSG_DONTWAIT) == 4);
  close(number), close(pair[1]);
  CHECK(soon(connected));
  leave(0);
}
static void child_closes_all(void) {
  work();
  int number = shims_socket();
  pid_t child = fork();
  if (!child) {
    for (int fd = 3; fd < NUMBERS; fd++) close(fd);
    put_own(number);
    mock_launch l = {.cbid = 307, .correlation = 2};
    mock->launch_enter(&l), mock->launch_exit(&l);
    usleep(100000);
    CHECK(unharmed());
    exit(6);
  }
  CHECK(ended(child) == 6);
  CHECK(shims_socket() == number);
  leave(0);
}
static void few_descriptors(void) {
  struct rlimit limit;
  CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = 16;
  CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
  work();
  CHECK(shims_socket() >= 14);
  leave(0);
}
static void no_descriptor(void) {
  init();
  struct rlimit limit;
  CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = 16;
  CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
  int last = -1;
  for (int fd; (fd = dup(0)) >= 0;) last = fd;
  CHECK(last == 15);
  mock->context_created(1, 0);
  usleep(300000); // connecting is tried some times
  CHECK(dup(0) == -1 && errno == EMFILE);
  CHECK(!close(5));
  usleep(300000);
  CHECK(disconnected()); // 5 is the engine's
  close(last);
  CHECK(soon(connected) && shims_socket() == 15);
  leave(0);
}

const host_case descriptor_cases[] = {
    CASE(closes_all, 0, 3),       CASE(reuses_all, 0, 2),      CASE(replaces_socket, 0, 2),
    CASE(child_closes_all, 0, 1), CASE(few_descriptors, 0, 1), CASE(no_descriptor, 0, 1),
    {0},
};
