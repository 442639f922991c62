// A collector for tests of what sends: it answers HELLO and gives the frames that come, one by one.
#ifndef KERNHES_COLLECTOR_H
#define KERNHES_COLLECTOR_H

#include "check.h"
#include "transport/wire.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct collector {
  struct sockaddr_un address;
  int listener, fd;
};

// collector_listen listens, and has KERNHES_ENDPOINT say where.
static inline void collector_listen(struct collector *c) {
  char endpoint[128];
  *c = (struct collector){.address.sun_family = AF_UNIX, .fd = -1};
  snprintf(c->address.sun_path, sizeof c->address.sun_path, "/tmp/kernhes-test.%d", (int)getpid());
  snprintf(endpoint, sizeof endpoint, "unix://%s", c->address.sun_path);
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  c->listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(c->listener, (struct sockaddr *)&c->address, sizeof c->address) == 0 && listen(c->listener, 4) == 0);
}

static inline void collector_read(int fd, void *to, size_t n) {
  for (size_t got = 0; got < n;) {
    CHECK(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000) == 1);
    ssize_t r = recv(fd, (uint8_t *)to + got, n - got, 0);
    CHECK(r > 0);
    got += (size_t)r;
  }
}

static inline void collector_say(int fd, uint16_t kind, const void *body, uint32_t length) {
  struct {
    kw_frame head;
    uint8_t body[128];
  } f = {.head = {.length = length, .kind = kind}};
  CHECK(length <= sizeof f.body);
  memcpy(f.body, body, length);
  CHECK(send(fd, &f, sizeof f.head + length, MSG_NOSIGNAL) == (ssize_t)(sizeof f.head + length));
}

// collector_frame reads one frame into body; it acknowledges what is numbered.
static inline kw_frame collector_frame(struct collector *c, uint8_t *body, size_t room) {
  kw_frame f;
  collector_read(c->fd, &f, sizeof f);
  CHECK(f.length <= room);
  collector_read(c->fd, body, f.length);
  if (f.number > 0) collector_say(c->fd, KW_ACK, &(kw_ack){.number = f.number}, sizeof(kw_ack));
  return f;
}

// collector_accept takes the next connection and answers its HELLO, whose body it gives.
static inline kw_frame collector_accept(struct collector *c, uint8_t *body, size_t room) {
  CHECK(poll(&(struct pollfd){.fd = c->listener, .events = POLLIN}, 1, 60000) == 1);
  CHECK((c->fd = accept(c->listener, NULL, NULL)) >= 0);
  kw_frame f = collector_frame(c, body, room);
  CHECK(f.kind == KW_HELLO && f.number == 0);
  collector_say(c->fd, KW_WELCOME, &(kw_welcome){.magic = KW_MAGIC, .version = KW_VERSION}, sizeof(kw_welcome));
  return f;
}

static inline void collector_close(struct collector *c) {
  if (c->fd >= 0) close(c->fd);
  close(c->listener);
  unlink(c->address.sun_path);
}

#endif
