// Frames that the collector has not acknowledged, bounded.
#ifndef KERNHES_QUEUE_H
#define KERNHES_QUEUE_H

#include "transport/base.h"
#include "transport/losses.h"

#include <stdbool.h>
#include <stdint.h>

// A stake is what a frame's loss would have to be counted as; count 0: as nothing.
struct stake {
  uint32_t reason; // KW_LOST_SHIM_BUFFER, or of a LOST frame its own: a count is not lost with its frame
  uint32_t what;   // KW_OF_...
  struct loss is;
};

// A frame, numbered. One that was dropped after it had been sent stays as a husk, without its bytes: whether its
// records are lost shows when it is acknowledged, or when a collector comes that never received it.
struct frame {
  struct frame *next;
  uint64_t number;
  uint16_t kind;
  bool sending;   // the link holds its bytes
  bool husk;
  bool launched;        // there is a launch in it; known once it is folded
  uint32_t correlation; // of the last of them
  uint32_t size; // bytes with the head
  struct stake stake;
  uint8_t *bytes; // the head and the body
};

struct queue {
  struct frame *first, *last;
  struct frame *next;  // to be sent next; NULL: all are sent
  uint64_t bytes;      // of all frames but husks
  uint64_t most;       // the most that bytes ever was
  uint64_t bound;
  uint64_t number;     // of the last frame added
  uint64_t sent;       // of the last frame that was sent whole, on this connection or as the collector says
  uint64_t ever;       // the most that sent was by itself: no collector can have received more in this session
  uint32_t husks;
  struct base base;    // the state after the frames that were freed
  struct losses *losses;
};

// queue_add numbers a frame and appends it. Without memory it is lost, and counted.
void queue_add(struct queue *q, uint16_t kind, const void *body, uint32_t length, struct stake stake);

// queue_trim folds and drops the oldest until the bound holds. True if a frame was dropped that had not been sent.
bool queue_trim(struct queue *q);

// queue_acknowledge folds and frees all up to number. False if that was never sent.
bool queue_acknowledge(struct queue *q, uint64_t number);

// queue_resume begins a connection: acknowledged and received are those of WELCOME. False if they cannot be.
bool queue_resume(struct queue *q, uint64_t acknowledged, uint64_t received);

// queue_send gives the next frame, whose bytes stay until queue_sent or queue_unsent; NULL: all are sent.
struct frame *queue_send(struct queue *q);
void queue_sent(struct queue *q, struct frame *f);
void queue_unsent(struct queue *q, struct frame *f); // the connection ended first

void queue_free(struct queue *q);

#endif
