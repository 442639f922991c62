// The connection to the collector: connecting, the handshake, sending, and what the collector answers.
#ifndef KERNHES_LINK_H
#define KERNHES_LINK_H

#include "host/descriptor.h"
#include "transport/bytes.h"
#include "transport/queue.h"
#include "transport/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum link_state {
  LINK_CLOSED,     // until retry_at
  LINK_CONNECTING,
  LINK_GREETING,   // HELLO is on its way, or its answer
  LINK_SNAPSHOT,
  LINK_LIVE,
  LINK_SENSELESS,  // for good: the endpoint makes no sense
};

// A link_control_fn is given each CONTROL that the collector sends, on the sender's thread; NULL at each WELCOME.
typedef void (*link_control_fn)(const kw_control *command);

struct link {
  enum link_state state;
  struct descriptor socket;
  uint64_t session;
  uint64_t retry_at; // tick, ns
  uint64_t backoff;  // ns; the first again once a frame is acknowledged
  uint64_t pause;    // ns, at least, until the next connection is tried; 0: the backoff alone
  uint32_t disputes; // connections that the collector ended over the protocol, since a frame was acknowledged
  bool disowned;     // the collector has another idea of this session than the shim: see link_disowned
  uint64_t since;    // tick at which the state was entered
  struct bytes out;  // HELLO, then the snapshot
  size_t out_at;
  struct frame *frame; // being sent
  size_t frame_at;
  uint8_t in[4096 + 1024];
  size_t in_used;
  uint64_t heard, heard_since; // bytes in a second, and the tick at which it began
  uint64_t skip;     // bytes of a frame of an unknown kind still to come
  uint64_t sent_bytes, connects;
  uint64_t renew_at; // tick before which no other session begins
  link_control_fn control;
};

// link_open prepares the first connection; control may be NULL.
void link_open(struct link *l, uint64_t session, link_control_fn control);

// link_step does what can be done without waiting.
void link_step(struct link *l, struct queue *q, const struct intern *strings);

// link_held_up tells whether the next step depends on the socket: on room to send, or on the answer to HELLO.
bool link_held_up(const struct link *l, const struct queue *q);

// link_wait waits until the socket lets link_step go on, at most ms.
void link_wait(const struct link *l, const struct queue *q, int ms);

// link_disowned tells that the session is over for the collector, or another's: it acknowledges what was never sent, or
// refuses what comes time after time. Somebody else may have spoken for it.
bool link_disowned(const struct link *l);

// link_renew begins another session at the next connection: what is not acknowledged is sent again under the new number.
void link_renew(struct link *l, struct queue *q, uint64_t session);

// link_break ends the connection; the next is tried after the backoff.
void link_break(struct link *l, struct queue *q, const char *why);
void link_close(struct link *l, struct queue *q);

// link_forked closes a child's copy of the connection, if it has one.
void link_forked(void);

#endif
