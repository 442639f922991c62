// Endpoints: those that make no sense, those where nobody listens, and a connection by TCP, whose host is resolved once.
#include "check.h"
#include "transport/connect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static enum connected begin(const char *endpoint) {
  struct descriptor d = {.fd = 77};
  enum connected c = connect_begin(endpoint, &d);
  CHECK((d.fd >= 0) == (c == CONNECT_DONE || c == CONNECT_UNDERWAY));
  descriptor_close(&d);
  return c;
}

static bool senseless(int family, const char *format) {
  (void)family, (void)format;
  char host[300], path[200];
  snprintf(host, sizeof host, "tcp://%0255d:1", 0);
  CHECK(begin(host) != CONNECT_SENSELESS); // just short enough
  snprintf(host, sizeof host, "tcp://%0256d:1", 0);
  CHECK_EQUAL(begin(host), CONNECT_SENSELESS);
  snprintf(path, sizeof path, "unix:///%0106d", 0); // 107 bytes and a zero: the longest there is
  CHECK_EQUAL(begin(path), CONNECT_FAILED);
  snprintf(path, sizeof path, "unix:///%0107d", 0);
  CHECK_EQUAL(begin(path), CONNECT_SENSELESS);
  static const char *const all[] = {"", "unix:", "unix://", "tcp://", "tcp://host", "tcp://host:", "tcp:", "http://host:1", "/run/s", "Unix:///s"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK_EQUAL(begin(all[i]), CONNECT_SENSELESS);
  CHECK_EQUAL(begin("unix:///nowhere/at/all"), CONNECT_FAILED);
  return true;
}

// to connects to a listener, written as `format` has it, and has a byte come through; false if this host has no such address.
static bool to(int family, const char *format) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
  socklen_t size = family == AF_INET ? sizeof four : sizeof six;
  char endpoint[64], byte = 0;
  int listener = socket(family, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, address, size) != 0) return false;
  CHECK(listen(listener, 4) == 0 && getsockname(listener, address, &size) == 0);
  snprintf(endpoint, sizeof endpoint, format, ntohs(family == AF_INET ? four.sin_port : six.sin6_port));
  for (int i = 0; i < 2; i++) { // the second time from what was resolved
    struct descriptor d;
    enum connected c = connect_begin(endpoint, &d);
    CHECK(c == CONNECT_DONE || c == CONNECT_UNDERWAY);
    CHECK(poll(&(struct pollfd){.fd = d.fd, .events = POLLOUT}, 1, 10000) == 1);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && send(d.fd, "x", 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1 && byte == 'x');
    descriptor_close(&d);
    close(fd);
  }
  close(listener);
  return true;
}

// in_child: a host is resolved once in the life of a process.
static void in_child(bool (*run)(int, const char *), int family, const char *format) {
  int status;
  pid_t child = fork();
  if (child == 0) exit(run(family, format) ? 0 : 7);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (family == AF_INET6 && WEXITSTATUS(status) == 7)));
}

int main(void) {
  in_child(senseless, 0, NULL);
  in_child(to, AF_INET, "tcp://127.0.0.1:%d");
  in_child(to, AF_INET6, "tcp://[::1]:%d");
  return 0;
}
