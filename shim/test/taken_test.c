// An engine that closes the socket or puts a file or another socket under its number, in each state of the link: its
// files stay as they are and open, nothing is read from them, and the link goes on over a new connection.
#include "capture/encode.h"
#include "check.h"
#include "host/env.h"
#include "host/log.h"
#include "transport/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int listener;
static struct losses losses;
static struct queue q = {.bound = 1 << 28, .losses = &losses};
static struct intern strings;
static struct link l;

// What the engine does with the number.
enum deed { CLOSES, FILE_THERE, SOCKET_THERE, DEEDS };

struct harm {
  int fd;   // what lies under the number; -1: nothing
  int peer; // the other end of a socket; -1: fd is a file
};

static struct harm take_over(int number, enum deed deed) {
  struct harm h = {.fd = -1, .peer = -1};
  if (deed == CLOSES) {
    CHECK_EQUAL(close(number), 0);
    return h;
  }
  int fd, pair[2];
  if (deed == FILE_THERE) {
    char path[] = "/tmp/taken_test.XXXXXX";
    fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && write(fd, "mine", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
  } else {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(send(pair[1], "mine", 4, 0) == 4);
    fd = pair[0];
    h.peer = pair[1];
  }
  CHECK_EQUAL(dup2(fd, number), number);
  CHECK_EQUAL(close(fd), 0);
  h.fd = number;
  return h;
}

// check_unharmed also closes what the engine had there.
static void check_unharmed(struct harm h) {
  char text[16];
  if (h.fd < 0) return;
  CHECK_EQUAL(read(h.fd, text, sizeof text), 4); // from the beginning: nobody read any of it, or wrote behind it
  CHECK(memcmp(text, "mine", 4) == 0);
  if (h.peer >= 0) {
    CHECK(recv(h.peer, text, sizeof text, MSG_DONTWAIT) == -1 && errno == EAGAIN); // nothing came, not even its end
    CHECK_EQUAL(close(h.peer), 0);
  }
  CHECK_EQUAL(close(h.fd), 0);
}

// Linked with --wrap: the engine may do it between two calls of the link, and no file of its own is polled.
static enum deed after_recv = DEEDS;
static struct harm between;
static int polled = -1;
ssize_t __real_recv(int fd, void *to, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t n, int flags);
int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

ssize_t __wrap_recv(int fd, void *to, size_t n, int flags) {
  ssize_t got = __real_recv(fd, to, n, flags);
  enum deed deed = after_recv;
  after_recv = DEEDS;
  if (deed != DEEDS) between = take_over(fd, deed);
  return got;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int ms) {
  polled = p->fd;
  return __real_poll(p, n, ms);
}

static void listen_at(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char endpoint[80];
  int n = snprintf(address.sun_path, sizeof address.sun_path, "/tmp/kernhes-taken-test.%d", (int)getpid());
  snprintf(endpoint, sizeof endpoint, "unix://%.*s", n, address.sun_path);
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  env_load();
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
}

static bool readable(int fd) { return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1; }

// step_until has the link go on until it is in that state.
static void step_until(enum link_state state) {
  for (int i = 0; l.state != state; i++) {
    CHECK(i < 10000);
    link_step(&l, &q, &strings);
    if (l.state == state) return;
    if (l.socket.fd >= 0) link_wait(&l, &q, 1);
    else usleep(1000);
  }
}

// drain takes what the link has sent up to now.
static size_t drain(int fd) {
  static uint8_t to[1 << 16];
  size_t all = 0;
  for (ssize_t n; (n = recv(fd, to, sizeof to, MSG_DONTWAIT)) > 0;) all += (size_t)n;
  return all;
}

static void welcome(int fd, uint64_t received) {
  struct {
    kw_frame head;
    kw_welcome body;
  } w = {{.length = sizeof(kw_welcome), .kind = KW_WELCOME},
         {.magic = KW_MAGIC, .version = KW_VERSION, .acknowledged = received, .received = received}};
  CHECK_EQUAL(send(fd, &w, sizeof w, 0), sizeof w);
}

// once: the engine does it while the link is in that state. With much to send, it is in the middle of a frame.
static void once(enum link_state state, enum deed deed, bool much) {
  static uint8_t body[8 << 20];
  link_open(&l, 5, NULL);
  queue_add(&q, KW_KERNELS, body, much ? sizeof body : 640, (struct stake){0});
  step_until(LINK_GREETING);
  int collector = accept(listener, NULL, NULL);
  CHECK(collector >= 0);
  if (state > LINK_GREETING) {
    welcome(collector, q.number - 1);
    step_until(LINK_LIVE);
    link_step(&l, &q, &strings);
    CHECK((l.frame != NULL) == much);
  }
  if (much) CHECK(l.frame_at > 0 && l.frame_at < l.frame->size && link_held_up(&l, &q));
  uint64_t sent = l.sent_bytes;
  int number = l.socket.fd;
  struct harm h = take_over(number, deed);
  polled = -1;
  link_wait(&l, &q, 60000);
  CHECK(polled != number);
  link_step(&l, &q, &strings);
  CHECK(l.socket.fd == -1 && l.state == LINK_CLOSED && l.frame == NULL);
  CHECK_EQUAL(l.sent_bytes, sent);
  link_step(&l, &q, &strings);
  CHECK_EQUAL(l.state, LINK_CLOSED); // not again at once
  check_unharmed(h);
  if (deed == CLOSES) CHECK(drain(collector) > 0 && readable(collector)); // and then its end
  close(collector);
  // The next connection has all.
  step_until(LINK_GREETING);
  collector = accept(listener, NULL, NULL);
  welcome(collector, q.number - 1);
  size_t got = 0;
  while (link_step(&l, &q, &strings), got += drain(collector), l.state != LINK_LIVE || q.next != NULL || l.frame != NULL) continue;
  CHECK(got > (much ? sizeof body : 640));
  link_close(&l, &q);
  close(collector);
  CHECK(queue_acknowledge(&q, q.number));
}

// ends: the same where the link is closed and not stepped.
static void ends(enum deed deed) {
  link_open(&l, 5, NULL);
  step_until(LINK_GREETING);
  int collector = accept(listener, NULL, NULL);
  struct harm h = take_over(l.socket.fd, deed);
  link_close(&l, &q);
  check_unharmed(h);
  close(collector);
}

// in_between: the engine does it after the link has read, and before it sends.
static void in_between(enum deed deed) {
  link_open(&l, 5, NULL);
  step_until(LINK_GREETING);
  int collector = accept(listener, NULL, NULL);
  welcome(collector, q.number);
  step_until(LINK_LIVE);
  kw_flushed flushed = {.now = 1};
  queue_add(&q, KW_FLUSHED, &flushed, sizeof flushed, (struct stake){0});
  uint64_t sent = l.sent_bytes;
  after_recv = deed;
  link_step(&l, &q, &strings);
  CHECK(after_recv == DEEDS && l.state == LINK_CLOSED && l.socket.fd == -1);
  CHECK_EQUAL(l.sent_bytes, sent);
  check_unharmed(between);
  close(collector);
  queue_free(&q);
  q = (struct queue){.bound = 1 << 28, .losses = &losses};
}

// forks: the child's copy is closed if it is the socket, and left alone if it is a file.
static void forks(enum deed deed) {
  link_open(&l, 5, NULL);
  step_until(LINK_GREETING);
  int collector = accept(listener, NULL, NULL), number = l.socket.fd, status;
  CHECK(drain(collector) > 0);
  struct harm h = {.fd = -1, .peer = -1};
  if (deed != DEEDS) h = take_over(number, deed);
  pid_t child = fork();
  if (child == 0) {
    link_forked();
    bool open = fcntl(number, F_GETFD) != -1;
    link_forked(); // again, without a copy
    _exit(open);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), h.fd >= 0);
  if (deed == DEEDS) CHECK(!readable(collector)); // the parent's goes on
  check_unharmed(h);
  link_close(&l, &q);
  close(collector);
}

int main(void) {
  listen_at();
  for (enum deed d = CLOSES; d < DEEDS; d++) {
    once(LINK_GREETING, d, false);
    once(LINK_LIVE, d, false);
    once(LINK_LIVE, d, true);
    in_between(d);
    ends(d);
    forks(d);
  }
  forks(DEEDS);
  queue_free(&q);
  struct sockaddr_un address;
  socklen_t size = sizeof address;
  CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0 && unlink(address.sun_path) == 0);
  return 0;
}
