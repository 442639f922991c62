// The link. One thread drives it; nothing in it waits. On any fault the connection ends and the next begins with
// HELLO and the snapshot.
#include "transport/link.h"

#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "transport/connect.h"
#include "transport/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define MS 1000000ull
#define BACKOFF_FIRST (50 * MS)
#define BACKOFF_MOST (1000 * MS)
#define PATIENCE (10000 * MS) // for a connection to come up, and for the answer to HELLO
#define TURN (4u << 20)       // bytes sent in one step, so that the ring is not left alone for long

static const char taken[] = "the engine closed its descriptor, or put another file there";

// The socket, for a child process to close: the number is written last, and taken back first.
static atomic_int open_fd = -1;
static _Atomic uint64_t open_device, open_inode;

static void publish(const struct descriptor *d) {
  atomic_store(&open_device, d->device);
  atomic_store(&open_inode, d->inode);
  atomic_store(&open_fd, d->fd);
}

static void enter(struct link *l, enum link_state state) {
  l->state = state;
  l->since = clock_tick();
}

void link_open(struct link *l, uint64_t session) {
  *l = (struct link){.socket.fd = -1, .session = session, .backoff = BACKOFF_FIRST};
}

void link_close(struct link *l, struct queue *q) {
  atomic_store(&open_fd, -1);
  descriptor_close(&l->socket);
  if (l->frame != NULL) queue_unsent(q, l->frame);
  l->frame = NULL;
  bytes_free(&l->out);
  l->out_at = l->frame_at = l->in_used = l->skip = 0;
  if (l->state != LINK_REFUSED) enter(l, LINK_CLOSED);
}

void link_break(struct link *l, struct queue *q, const char *why) {
  if (l->state > LINK_CONNECTING) log_line("the connection ends: %s", why);
  link_close(l, q);
  l->retry_at = clock_tick() + l->backoff;
  l->backoff = l->backoff * 2 < BACKOFF_MOST ? l->backoff * 2 : BACKOFF_MOST;
}

static void greet(struct link *l, const struct queue *q) {
  const struct bytes *pairs = &q->base.pairs;
  kw_frame head = {.length = (uint32_t)(sizeof(kw_hello) + pairs->used), .kind = KW_HELLO};
  kw_hello hello = {.magic = KW_MAGIC, .version = KW_VERSION, .session = l->session};
  l->connects++;
  bytes_put(&l->out, &head, sizeof head);
  bytes_put(&l->out, &hello, sizeof hello);
  bytes_put(&l->out, pairs->data, pairs->used);
  enter(l, LINK_GREETING);
}

static void dial(struct link *l, struct queue *q) {
  if (clock_tick() < l->retry_at) return;
  enum connected c = connect_begin(env_text(ENV_ENDPOINT), &l->socket);
  if (c == CONNECT_SENSELESS) {
    log_line("KERNHES_ENDPOINT=%s: neither unix:///path nor tcp://host:port", env_text(ENV_ENDPOINT));
    enter(l, LINK_REFUSED);
    return;
  }
  if (c == CONNECT_FAILED) {
    link_break(l, q, "no connection");
    return;
  }
  publish(&l->socket);
  if (c == CONNECT_DONE) greet(l, q);
  else enter(l, LINK_CONNECTING);
}

static void await_connection(struct link *l, struct queue *q) {
  if (!descriptor_ours(&l->socket)) {
    link_break(l, q, taken);
    return;
  }
  struct pollfd p = {.fd = l->socket.fd, .events = POLLOUT};
  if (poll(&p, 1, 0) == 0) return;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(l->socket.fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) link_break(l, q, "no connection");
  else greet(l, q);
}

// welcome frees what the collector has and prepares the snapshot; NULL, or what is wrong.
static const char *welcome(struct link *l, struct queue *q, const struct intern *strings, const uint8_t *body,
                           uint32_t length) {
  kw_welcome w;
  if (l->state != LINK_GREETING || length != sizeof w) return "a WELCOME out of place or of another size";
  memcpy(&w, body, sizeof w);
  if (w.magic != KW_MAGIC || w.version != KW_VERSION) {
    log_line("the collector speaks another version: %u, not %u", w.version, KW_VERSION);
    enter(l, LINK_REFUSED);
    return "another version";
  }
  if (!queue_resume(q, w.acknowledged, w.received)) return "WELCOME knows frames that never were";
  l->out.used = l->out_at = 0;
  if (!base_snapshot(&q->base, strings, clock_now(), &l->out)) return "no memory for the snapshot";
  bool missed = w.received > 0 && w.received < q->base.number && q->base.strings > 0;
  if (missed && !base_strings(&q->base, strings, &l->out)) return "no memory for the names";
  l->backoff = BACKOFF_FIRST;
  enter(l, LINK_SNAPSHOT);
  return NULL;
}

static const char *refused(struct link *l, const uint8_t *body, uint32_t length) {
  kw_refused r;
  if (length < sizeof r) return "a REFUSED cut short";
  memcpy(&r, body, sizeof r);
  uint32_t text = r.length < length - sizeof r ? r.length : length - (uint32_t)sizeof r;
  log_line("the collector refuses: %u, %.*s", r.code, (int)text, (const char *)body + sizeof r);
  if (r.code == KW_REFUSED_VERSION) enter(l, LINK_REFUSED);
  return "refused";
}

// heard takes one frame of the collector; NULL, or what is wrong.
static const char *heard(struct link *l, struct queue *q, const struct intern *strings, const kw_frame *f,
                         const uint8_t *body) {
  switch (f->kind) {
  case KW_WELCOME:
    return welcome(l, q, strings, body, f->length);
  case KW_ACK: {
    kw_ack a;
    if (f->length != sizeof a || l->state < LINK_SNAPSHOT) return "an ACK out of place or of another size";
    memcpy(&a, body, sizeof a);
    return queue_acknowledge(q, a.number) ? NULL : "an ACK of a frame that was not sent";
  }
  case KW_CONTROL: {
    kw_control c;
    if (f->length != sizeof c) return "a CONTROL of another size";
    memcpy(&c, body, sizeof c);
    l->command = c.command;
    l->argument = c.argument[0];
    return NULL;
  }
  case KW_REFUSED:
    return refused(l, body, f->length);
  default:
    return NULL;
  }
}

static bool is_known(uint16_t kind) { return kind >= KW_WELCOME && kind <= KW_REFUSED; }

// parse takes what is whole in the buffer; NULL, or what is wrong.
static const char *parse(struct link *l, struct queue *q, const struct intern *strings) {
  size_t at = 0;
  const char *wrong = NULL;
  while (wrong == NULL && l->socket.fd >= 0) {
    if (l->skip > 0) {
      size_t n = l->in_used - at < l->skip ? l->in_used - at : l->skip;
      at += n;
      l->skip -= n;
    }
    kw_frame f;
    if (l->skip > 0 || l->in_used - at < sizeof f) break;
    memcpy(&f, l->in + at, sizeof f);
    if (f.length > KW_MAX_BODY) return "a frame over 16 MiB";
    if (!is_known(f.kind)) {
      l->skip = sizeof f + f.length;
      continue;
    }
    if (sizeof f + f.length > sizeof l->in) return "a frame longer than its kind may be";
    if (l->in_used - at < sizeof f + f.length) break;
    wrong = heard(l, q, strings, &f, l->in + at + sizeof f);
    at += sizeof f + f.length;
  }
  memmove(l->in, l->in + at, l->in_used - at);
  l->in_used -= at;
  return wrong;
}

// hear reads all there is; NULL, or why the connection ends.
static const char *hear(struct link *l, struct queue *q, const struct intern *strings) {
  for (;;) {
    if (!descriptor_ours(&l->socket)) return taken;
    ssize_t n = recv(l->socket.fd, l->in + l->in_used, sizeof l->in - l->in_used, MSG_DONTWAIT);
    if (n == 0) return "the collector closed it";
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? NULL : strerror(errno);
    l->in_used += (size_t)n;
    const char *wrong = parse(l, q, strings);
    if (wrong != NULL) return wrong;
  }
}

// put sends some of a run of bytes; NULL, or why the connection ends.
static const char *put(struct link *l, const uint8_t *bytes, size_t size, size_t *at) {
  if (!descriptor_ours(&l->socket)) return taken;
  ssize_t n = send(l->socket.fd, bytes + *at, size - *at, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? NULL : strerror(errno);
  *at += (size_t)n;
  l->sent_bytes += (uint64_t)n;
  return NULL;
}

static const char *talk(struct link *l, struct queue *q) {
  for (uint64_t until = l->sent_bytes + TURN; l->sent_bytes < until;) {
    uint64_t before = l->sent_bytes;
    const char *wrong = NULL;
    if (l->out_at < l->out.used) {
      wrong = put(l, l->out.data, l->out.used, &l->out_at);
    } else if (l->state == LINK_SNAPSHOT) {
      bytes_free(&l->out); // it may be tens of MiB
      l->out_at = 0;
      enter(l, LINK_LIVE);
      continue;
    } else if (l->state == LINK_LIVE) {
      if (l->frame == NULL && (l->frame = queue_send(q)) == NULL) return NULL;
      wrong = put(l, l->frame->bytes, l->frame->size, &l->frame_at);
      if (l->frame_at == l->frame->size) {
        queue_sent(q, l->frame);
        l->frame = NULL;
        l->frame_at = 0;
      }
    }
    if (wrong != NULL || l->sent_bytes == before) return wrong;
  }
  return NULL;
}

void link_step(struct link *l, struct queue *q, const struct intern *strings) {
  if (l->state == LINK_CLOSED) dial(l, q);
  if (l->state == LINK_CONNECTING) await_connection(l, q);
  if (l->state == LINK_CLOSED || l->state == LINK_REFUSED) return;
  bool impatient = l->state <= LINK_GREETING && clock_tick() - l->since > PATIENCE;
  const char *wrong = impatient ? "no answer" : NULL;
  if (wrong == NULL && l->state != LINK_CONNECTING) wrong = hear(l, q, strings);
  if (wrong == NULL && l->state != LINK_CONNECTING) {
    wrong = talk(l, q);
    if (wrong != NULL) hear(l, q, strings); // its last words: acknowledgements, or why it refuses
  }
  if (wrong != NULL) link_break(l, q, wrong);
}

// wants_room tells whether there is something to send, or a connection to come up.
static bool wants_room(const struct link *l, const struct queue *q) {
  return l->state == LINK_CONNECTING || l->out_at < l->out.used ||
         (l->state == LINK_LIVE && (l->frame != NULL || q->next != NULL));
}

bool link_held_up(const struct link *l, const struct queue *q) {
  return l->socket.fd >= 0 && (l->state == LINK_GREETING || wants_room(l, q));
}

void link_wait(const struct link *l, const struct queue *q, int ms) {
  if (!descriptor_ours(&l->socket)) return; // the next step ends the connection
  struct pollfd p = {.fd = l->socket.fd, .events = (short)(POLLIN | (wants_room(l, q) ? POLLOUT : 0))};
  poll(&p, 1, ms);
}

void link_forked(void) {
  struct descriptor d = {.fd = atomic_exchange(&open_fd, -1), .device = open_device, .inode = open_inode};
  descriptor_close(&d);
}
