// The link against a collector that acknowledges late, dies in the middle of a frame, forgets everything, or talks
// nonsense: every numbered frame arrives, once or as one that was had already.
#include "capture/encode.h"
#include "check.h"
#include "host/clock.h"
#include "host/env.h"
#include "transport/link.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FRAMES 300u
#define SESSION 77u

static char path[64];
static int listener;

// What the collector did on its connections, one after the other.
enum deed { DIE_IN_FRAME, FORGET, SILENT_ACKS, NONSENSE, KEEP, DEEDS };

static struct {
  uint64_t received, acknowledged; // of the session, while it is known
  uint64_t first[DEEDS], last[DEEDS], base[DEEDS], pinned[DEEDS];
} seen;

static bool read_all(int fd, void *to, size_t n) {
  for (size_t got = 0; got < n;) {
    ssize_t r = read(fd, (uint8_t *)to + got, n - got);
    if (r <= 0) return false;
    got += (size_t)r;
  }
  return true;
}

static void say(int fd, uint16_t kind, const void *body, uint32_t length) {
  uint8_t frame[64 + 16] = {0};
  kw_frame head = {.length = length, .kind = kind};
  memcpy(frame, &head, sizeof head);
  if (length > 0) memcpy(frame + sizeof head, body, length);
  CHECK(send(fd, frame, sizeof head + length, MSG_NOSIGNAL) == (ssize_t)(sizeof head + length));
}

static void welcome(int fd, const uint8_t *body) {
  kw_hello hello;
  memcpy(&hello, body, sizeof hello);
  CHECK(hello.magic == KW_MAGIC && hello.version == KW_VERSION && hello.session == SESSION);
  say(fd, 99, NULL, 0); // of a kind that the shim does not know
  kw_welcome w = {.magic = KW_MAGIC, .version = KW_VERSION, .acknowledged = seen.acknowledged, .received = seen.received};
  say(fd, KW_WELCOME, &w, sizeof w);
}

// serve plays one connection; it ends it when that deed is done.
static void serve(int fd, enum deed deed) {
  static uint8_t body[KW_MAX_BODY];
  kw_frame f;
  uint32_t numbered = 0;
  while (read_all(fd, &f, sizeof f)) {
    if (deed == DIE_IN_FRAME && numbered == 40) return; // after a head, before its body
    CHECK(f.length <= sizeof body);
    if (!read_all(fd, body, f.length)) return;
    if (f.kind == KW_HELLO) {
      CHECK_EQUAL(f.number, 0);
      welcome(fd, body);
    } else if (f.kind == KW_BASE) {
      memcpy(&seen.base[deed], body, 8);
    } else if (f.number == 0) {
      CHECK_EQUAL(f.flags, KW_PINNED);
      seen.pinned[deed]++;
    } else {
      if (numbered++ == 0) seen.first[deed] = f.number;
      else CHECK_EQUAL(f.number, seen.last[deed] + 1);
      seen.last[deed] = f.number;
      if (f.number > seen.received) seen.received = f.number;
      if (deed == NONSENSE && numbered == 20) {
        kw_ack a = {.number = FRAMES * 10};
        say(fd, KW_ACK, &a, sizeof a);
        while (read_all(fd, body, 1)) continue; // the shim ends it
        return;
      }
      bool acknowledge = deed == KEEP || f.number % 10 == 0;
      if (acknowledge) {
        kw_ack a = {.number = deed == KEEP ? f.number : f.number - 5};
        if (a.number > seen.acknowledged) seen.acknowledged = a.number;
        say(fd, KW_ACK, &a, sizeof a);
      }
      if (deed != KEEP && deed != NONSENSE && numbered == 60) return;
    }
  }
}

static void *collect(void *unused) {
  (void)unused;
  for (int deed = 0; deed < DEEDS; deed++) {
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    if (deed == FORGET) seen.received = seen.acknowledged = 0; // another collector, that knows nothing
    serve(fd, (enum deed)deed);
    close(fd);
  }
  return NULL;
}

static void listen_at(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(path, sizeof path, "/tmp/kernhes-link-test.%d", (int)getpid());
  memcpy(address.sun_path, path, strlen(path) + 1);
  char endpoint[80];
  snprintf(endpoint, sizeof endpoint, "unix://%s", path);
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  env_load();
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
}

int main(void) {
  struct losses losses = {0};
  struct queue q = {.bound = 1 << 28, .losses = &losses};
  struct encoder e = {.queue = &q};
  struct link l;
  pthread_t collector;
  listen_at();
  CHECK(pthread_create(&collector, NULL, collect, NULL) == 0);
  link_open(&l, SESSION, NULL);
  for (uint32_t i = 0; q.number < FRAMES; i++) {
    char name[32];
    kw_kernel k = {.start = i + 1, .end = i + 2};
    int n = snprintf(name, sizeof name, "kernel.%u", i);
    k.name = encode_name(&e, name, (uint32_t)n);
    encode_kernel(&e, &k);
    encode_close(&e); // two frames: STRINGS, KERNELS
  }
  while (q.first != NULL) {
    link_step(&l, &q, &e.strings);
    if (l.socket.fd >= 0) link_wait(&l, &q, 5);
    else usleep(5000);
  }
  CHECK_EQUAL(l.connects, DEEDS);
  link_close(&l, &q);
  pthread_join(collector, NULL);

  CHECK_EQUAL(seen.first[DIE_IN_FRAME], 1);
  CHECK_EQUAL(seen.base[DIE_IN_FRAME], 0);
  CHECK_EQUAL(seen.pinned[DIE_IN_FRAME], 0);
  // It had acknowledged 35 of 40. The next knows nothing: it is told of the names in those, and goes on behind them.
  CHECK_EQUAL(seen.base[FORGET], 35);
  CHECK_EQUAL(seen.first[FORGET], 36);
  CHECK_EQUAL(seen.pinned[FORGET], 1);
  // This one knows what it had: nothing is sent again.
  CHECK_EQUAL(seen.first[SILENT_ACKS], seen.last[FORGET] + 1);
  CHECK_EQUAL(seen.first[NONSENSE], seen.last[SILENT_ACKS] + 1);
  CHECK_EQUAL(seen.first[KEEP], seen.base[KEEP] > seen.last[NONSENSE] ? 0 : seen.last[NONSENSE] + 1);
  CHECK_EQUAL(seen.last[KEEP], q.number);
  CHECK_EQUAL(q.base.number, q.number);
  CHECK_EQUAL(q.bytes, 0);
  kw_lost lost;
  CHECK(!losses_take(&losses, &lost));
  queue_free(&q);
  encode_free(&e);
  close(listener);
  unlink(path);
  return 0;
}
