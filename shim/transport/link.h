// The connection to the collector: connecting, the handshake, sending, and what the collector answers.
#ifndef KERNHES_LINK_H
#define KERNHES_LINK_H

#include "host/descriptor.h"
#include "transport/bytes.h"
#include "transport/queue.h"

#include <stdbool.h>
#include <stdint.h>

enum link_state {
  LINK_CLOSED,     // until retry_at
  LINK_CONNECTING,
  LINK_GREETING,   // HELLO is on its way, or its answer
  LINK_SNAPSHOT,
  LINK_LIVE,
  LINK_REFUSED,    // for good: the collector speaks another version, or the endpoint makes no sense
};

struct link {
  enum link_state state;
  struct descriptor socket;
  uint64_t session;
  uint64_t retry_at; // tick, ns
  uint64_t backoff;  // ns
  uint64_t since;    // tick at which the state was entered
  struct bytes out;  // HELLO, then the snapshot
  size_t out_at;
  struct frame *frame; // being sent
  size_t frame_at;
  uint8_t in[4096 + 1024];
  size_t in_used;
  uint64_t skip;     // bytes of a frame of an unknown kind still to come
  uint32_t command;  // of the last CONTROL, until someone takes it; 0: none
  uint64_t argument; // its first
  uint64_t sent_bytes, connects;
};

void link_open(struct link *l, uint64_t session);

// link_step does what can be done without waiting.
void link_step(struct link *l, struct queue *q, const struct intern *strings);

// link_held_up tells whether the next step depends on the socket: on room to send, or on the answer to HELLO.
bool link_held_up(const struct link *l, const struct queue *q);

// link_wait waits until the socket lets link_step go on, at most ms.
void link_wait(const struct link *l, const struct queue *q, int ms);

// link_break ends the connection; the next is tried after the backoff.
void link_break(struct link *l, struct queue *q, const char *why);
void link_close(struct link *l, struct queue *q);

// link_forked closes a child's copy of the connection, if it has one.
void link_forked(void);

#endif
