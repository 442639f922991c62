#include "transport/connect.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static enum connected begin(const struct sockaddr *address, socklen_t length, struct descriptor *to) {
  *to = descriptor_raise(descriptor_of(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (!descriptor_ours(to)) return CONNECT_FAILED;
  if (connect(to->fd, address, length) == 0) return CONNECT_DONE;
  if (errno == EINPROGRESS) return CONNECT_UNDERWAY;
  descriptor_close(to);
  return CONNECT_FAILED;
}

static enum connected begin_unix(const char *path, struct descriptor *to) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof address.sun_path) return CONNECT_SENSELESS;
  memcpy(address.sun_path, path, n + 1);
  return begin((const struct sockaddr *)&address, sizeof address, to);
}

static enum connected begin_tcp(const char *where, struct descriptor *to) {
  static struct sockaddr_storage address;
  static socklen_t length; // 0: not resolved yet
  char host[256];
  const char *colon = strrchr(where, ':');
  if (colon == NULL || colon[1] == 0 || (size_t)(colon - where) >= sizeof host) return CONNECT_SENSELESS;
  bool brackets = *where == '[' && colon > where + 1 && colon[-1] == ']';
  snprintf(host, sizeof host, "%.*s", (int)(colon - where) - 2 * brackets, where + brackets);
  if (length == 0) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) return CONNECT_FAILED;
    memcpy(&address, found->ai_addr, found->ai_addrlen);
    length = found->ai_addrlen;
    freeaddrinfo(found);
  }
  return begin((const struct sockaddr *)&address, length, to);
}

enum connected connect_begin(const char *endpoint, struct descriptor *to) {
  to->fd = -1;
  if (strncmp(endpoint, "unix://", 7) == 0) return begin_unix(endpoint + 7, to);
  if (strncmp(endpoint, "tcp://", 6) == 0) return begin_tcp(endpoint + 6, to);
  return CONNECT_SENSELESS;
}
