// Descriptors beside an engine that closes them, gives their numbers to files of its own, or has hardly any.
#include "capture/manifest.h"
#include "check.h"
#include "host/descriptor.h"
#include "host/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char contents[] = "the engine's";

// own_file opens a file of the engine's with its position at 4.
static int own_file(void) {
  char path[] = "/tmp/descriptor_test.XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && unlink(path) == 0);
  CHECK(write(fd, contents, sizeof contents) == sizeof contents && lseek(fd, 4, SEEK_SET) == 4);
  return fd;
}

static void check_own(int fd) {
  char now[2 * sizeof contents];
  CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 4);
  CHECK_EQUAL(pread(fd, now, sizeof now, 0), sizeof contents);
  CHECK(memcmp(now, contents, sizeof contents) == 0);
}

static struct descriptor socket_of_ours(void) {
  return descriptor_raise(descriptor_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

static void limit_to(rlim_t numbers) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = numbers;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void numbers(void) {
  limit_to(1024);
  int next = dup(0);
  struct descriptor d = socket_of_ours();
  CHECK_EQUAL(d.fd, 896); // the last eighth of 1,024
  CHECK_EQUAL(fcntl(d.fd, F_GETFD), FD_CLOEXEC);
  CHECK_EQUAL(close(next), 0);
  CHECK_EQUAL(dup(0), next); // where the engine's next file would lie without us
  CHECK_EQUAL(close(next), 0);
  descriptor_close(&d);
  CHECK(d.fd == -1 && fcntl(896, F_GETFD) == -1 && errno == EBADF);
  limit_to(16);
  d = socket_of_ours();
  CHECK_EQUAL(d.fd, 14);
  struct descriptor second = socket_of_ours(), third = socket_of_ours();
  CHECK_EQUAL(second.fd, 15);
  CHECK_EQUAL(third.fd, -1); // the rest is the engine's
  CHECK_EQUAL(dup(0), next);
  CHECK_EQUAL(close(next), 0);
  descriptor_close(&d);
  descriptor_close(&second);
  limit_to(3);
  CHECK_EQUAL(socket_of_ours().fd, -1);
  limit_to(1024);
  CHECK_EQUAL(descriptor_raise(descriptor_of(-1)).fd, -1);
}

static void taken(void) {
  struct descriptor d = socket_of_ours(), gone = d;
  CHECK(descriptor_ours(&d));
  CHECK_EQUAL(close(d.fd), 0);
  CHECK(!descriptor_ours(&d));
  int own = own_file(), number = dup2(own, d.fd);
  CHECK_EQUAL(number, d.fd);
  CHECK(!descriptor_ours(&d));
  char byte;
  CHECK_EQUAL(descriptor_read(&d, &byte, 1, 0), -1);
  CHECK_EQUAL(descriptor_raise(d).fd, -1);
  descriptor_close(&d);
  CHECK_EQUAL(d.fd, -1);
  check_own(number); // still open
  int other = socket(AF_UNIX, SOCK_STREAM, 0); // of the same device, but another inode
  CHECK_EQUAL(dup2(other, number), number);
  CHECK(!descriptor_ours(&gone));
  CHECK(close(other) == 0 && close(number) == 0 && close(own) == 0);
}

static void reading(void) {
  char text[32];
  int own = own_file();
  struct descriptor d = descriptor_of(own);
  CHECK_EQUAL(descriptor_read(&d, text, sizeof text, 9), sizeof contents - 9);
  CHECK(strcmp(text, "e's") == 0);
  check_own(own); // it was read at another position than its own
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", own);
  CHECK(strcmp(descriptor_text(path, text, sizeof text), contents) == 0);
  CHECK(strcmp(descriptor_text(path, text, 5), "the ") == 0);
  CHECK(strcmp(descriptor_text("/nowhere", text, sizeof text), "") == 0);
  struct bytes manifest = {0};
  CHECK(manifest_read(path, &manifest) && manifest.used == sizeof contents && memcmp(manifest.data, contents, manifest.used) == 0);
  bytes_free(&manifest);
  int next = dup(0);
  CHECK_EQUAL(next, own + 1); // nothing was left open
  CHECK(close(next) == 0 && close(own) == 0);
}

// The log goes to stderr, and not to a file that has come to have its number.
static void logging(void) {
  int real = dup(STDERR_FILENO), own = own_file(), pair[2];
  char line[64] = "";
  CHECK(pipe(pair) == 0 && dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
  log_enable(true);
  log_line("%s", "heard");
  CHECK(read(pair[0], line, sizeof line - 1) > 0 && strcmp(line, "kernhes: heard\n") == 0);
  char text[3000], cut[3000] = "";
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  log_line("%s", text);
  CHECK_EQUAL(read(pair[0], cut, sizeof cut), 1023); // with its head, and a newline at its end
  CHECK(cut[1022] == '\n' && cut[1021] == 'x');
  CHECK(dup2(own, STDERR_FILENO) == STDERR_FILENO);
  log_line("%s", "not heard");
  check_own(STDERR_FILENO);
  CHECK(dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
  log_enable(false);
  log_line("%s", "off");
  CHECK(dup2(real, STDERR_FILENO) == STDERR_FILENO && close(pair[1]) == 0);
  CHECK_EQUAL(read(pair[0], line, sizeof line - 1), 0); // nothing else came
  CHECK(close(pair[0]) == 0 && close(own) == 0 && close(real) == 0);
}

int main(void) {
  numbers();
  taken();
  reading();
  logging();
  return 0;
}
