// The link. One thread drives it; nothing in it waits. On any fault the connection ends and the next begins with
// HELLO and the snapshot.
#include "transport/link.h"

#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "transport/connect.h"
#include "transport/pairs.h"
#include "transport/peer.h"
#include "transport/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define MS 1000000ull
#define BACKOFF_FIRST (50 * MS)
#define BACKOFF_MOST (1000 * MS)
#define PATIENCE (10000 * MS) // for a connection to come up, and for the answer to HELLO
#define MINUTE (60000 * MS)   // until a collector is tried again that cannot be talked to
#define DISPUTES 3u           // in a row, until the session is given up
#define HEARD_MOST (1u << 20) // bytes in a second: a collector says some hundred
#define TOKEN_MOST 4096u      // bytes of a token
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

void link_open(struct link *l, uint64_t session, link_control_fn control) {
  *l = (struct link){.socket.fd = -1, .session = session, .backoff = BACKOFF_FIRST, .control = control};
}

bool link_disowned(const struct link *l) {
  return (l->disowned || l->disputes >= DISPUTES) && clock_tick() >= l->renew_at;
}

void link_renew(struct link *l, struct queue *q, uint64_t session) {
  log_line("the collector disowns the session: another begins");
  link_close(l, q);
  l->session = session;
  l->disowned = false;
  l->disputes = 0;
  l->renew_at = clock_tick() + MINUTE;
  q->ever = 0;
}

void link_close(struct link *l, struct queue *q) {
  atomic_store(&open_fd, -1);
  descriptor_close(&l->socket);
  if (l->frame != NULL) queue_unsent(q, l->frame);
  l->frame = NULL;
  bytes_wipe(&l->out);
  l->out_at = l->frame_at = l->in_used = l->skip = 0;
  if (l->state != LINK_SENSELESS) enter(l, LINK_CLOSED);
}

void link_break(struct link *l, struct queue *q, const char *why) {
  if (l->state > LINK_CONNECTING) log_line("the connection ends: %s", why);
  link_close(l, q);
  l->retry_at = clock_tick() + (l->pause > l->backoff ? l->pause : l->backoff);
  l->pause = 0;
  l->backoff = l->backoff * 2 < BACKOFF_MOST ? l->backoff * 2 : BACKOFF_MOST;
}

// read_token gives KERNHES_TOKEN, or what its file holds up to the end of the line.
static void read_token(char to[TOKEN_MOST + 2]) {
  const char *path = env_text(ENV_TOKEN_FILE);
  snprintf(to, TOKEN_MOST + 2, "%s", env_text(ENV_TOKEN));
  if (*to == 0 && *path != 0) descriptor_text(path, to, TOKEN_MOST + 2);
  to[strcspn(to, "\r\n")] = 0;
}

// say_hello writes HELLO. The token is in no other frame, and in memory only until the collector has answered.
static void say_hello(struct link *l, const struct queue *q) {
  const struct bytes *known = &q->base.pairs;
  struct bytes pairs = {0};
  char token[TOKEN_MOST + 2];
  read_token(token);
  size_t most = known->used + sizeof(kw_pair) + 8 + sizeof token;
  if (bytes_room(&pairs, most) != NULL && bytes_room(&l->out, sizeof(kw_frame) + sizeof(kw_hello) + most) != NULL) {
    bytes_put(&pairs, known->data, known->used);
    if (*token != 0) pairs_set(&pairs, "token", token);
    kw_frame head = {.length = (uint32_t)(sizeof(kw_hello) + pairs.used), .kind = KW_HELLO};
    kw_hello hello = {.magic = KW_MAGIC, .version = KW_VERSION, .session = l->session};
    bytes_put(&l->out, &head, sizeof head);
    bytes_put(&l->out, &hello, sizeof hello);
    bytes_put(&l->out, pairs.data, pairs.used);
  }
  explicit_bzero(token, sizeof token);
  bytes_wipe(&pairs);
}

static void greet(struct link *l, struct queue *q) {
  char why[160];
  if (!peer_trusted(&l->socket, env_text(ENV_ENDPOINT), env_text(ENV_COLLECTOR_UID), why, sizeof why)) {
    log_line("%s", why);
    l->pause = MINUTE;
    link_break(l, q, why);
    return;
  }
  say_hello(l, q);
  if (l->out.used == 0) {
    link_break(l, q, "no memory for HELLO");
    return;
  }
  l->connects++;
  enter(l, LINK_GREETING);
}

static void dial(struct link *l, struct queue *q) {
  if (clock_tick() < l->retry_at) return;
  enum connected c = connect_begin(env_text(ENV_ENDPOINT), &l->socket);
  if (c == CONNECT_SENSELESS) {
    log_line("KERNHES_ENDPOINT=%s: neither unix:///path nor tcp://host:port", env_text(ENV_ENDPOINT));
    enter(l, LINK_SENSELESS);
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
    l->pause = MINUTE;
    return "another version";
  }
  if (!queue_resume(q, w.acknowledged, w.received)) {
    l->disowned = true;
    return "WELCOME knows frames that never were";
  }
  bytes_wipe(&l->out);
  l->out_at = 0;
  if (!base_snapshot(&q->base, strings, clock_now(), &l->out)) return "no memory for the snapshot";
  bool missed = w.received > 0 && w.received < q->base.number && q->base.strings > 0;
  if (missed && !base_strings(&q->base, strings, &l->out)) return "no memory for the names";
  if (l->control != NULL) l->control(NULL);
  enter(l, LINK_SNAPSHOT);
  return NULL;
}

// acknowledged frees what the collector has; NULL, or what is wrong.
static const char *acknowledged(struct link *l, struct queue *q, const uint8_t *body, uint32_t length) {
  kw_ack a;
  if (length != sizeof a || l->state < LINK_SNAPSHOT) return "an ACK out of place or of another size";
  memcpy(&a, body, sizeof a);
  uint64_t first = q->first == NULL ? 0 : q->first->number;
  if (!queue_acknowledge(q, a.number)) return "an ACK of a frame that was not sent";
  if (first == 0 || a.number < first) return NULL;
  l->backoff = BACKOFF_FIRST; // not at WELCOME: that much a collector can say that then takes nothing
  l->disputes = 0;
  return NULL;
}

// say_refused logs a collector's words, as far as they are printable and do not repeat the token.
static void say_refused(uint32_t code, const char *text, size_t length) {
  char words[256], token[TOKEN_MOST + 2];
  size_t n = length < sizeof words - 1 ? length : sizeof words - 1;
  for (size_t i = 0; i < n; i++) words[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  words[n] = 0;
  read_token(token);
  bool secret = *token != 0 && memmem(text, length, token, strlen(token)) != NULL;
  explicit_bzero(token, sizeof token);
  log_line("the collector refuses: %u, %s", code, secret ? "in words that have the token in them" : words);
  explicit_bzero(words, sizeof words);
}

static const char *refused(struct link *l, const uint8_t *body, uint32_t length) {
  kw_refused r;
  if (length < sizeof r) return "a REFUSED cut short";
  memcpy(&r, body, sizeof r);
  uint32_t text = r.length < length - sizeof r ? r.length : length - (uint32_t)sizeof r;
  say_refused(r.code, (const char *)body + sizeof r, text);
  if (r.code == KW_REFUSED_VERSION) l->pause = MINUTE;
  if (r.code == KW_REFUSED_PROTOCOL) l->disputes++;
  return "refused";
}

// heard takes one frame of the collector; NULL, or what is wrong.
static const char *heard(struct link *l, struct queue *q, const struct intern *strings, const kw_frame *f,
                         const uint8_t *body) {
  switch (f->kind) {
  case KW_WELCOME:
    return welcome(l, q, strings, body, f->length);
  case KW_ACK:
    return acknowledged(l, q, body, f->length);
  case KW_CONTROL: {
    kw_control c;
    if (f->length != sizeof c) return "a CONTROL of another size";
    memcpy(&c, body, sizeof c);
    if (l->control != NULL) l->control(&c);
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

// floods counts n bytes that were heard, and tells whether they are more than a collector has to say.
static bool floods(struct link *l, size_t n) {
  uint64_t tick = clock_tick();
  if (tick - l->heard_since >= 1000 * MS) {
    l->heard = 0;
    l->heard_since = tick;
  }
  l->heard += n;
  return l->heard > HEARD_MOST;
}

// hear reads all there is; NULL, or why the connection ends.
static const char *hear(struct link *l, struct queue *q, const struct intern *strings) {
  for (;;) {
    if (!descriptor_ours(&l->socket)) return taken;
    ssize_t n = recv(l->socket.fd, l->in + l->in_used, sizeof l->in - l->in_used, MSG_DONTWAIT);
    if (n == 0) return "the collector closed it";
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? NULL : strerror(errno);
    l->in_used += (size_t)n;
    if (floods(l, (size_t)n)) {
      l->pause = MINUTE;
      return "the collector says more than 1 MiB in a second";
    }
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
  if (l->state == LINK_CLOSED || l->state == LINK_SENSELESS) return;
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
