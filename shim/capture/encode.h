// What happened, into frames.
#ifndef KERNHES_ENCODE_H
#define KERNHES_ENCODE_H

#include "capture/schemas.h"
#include "transport/intern.h"
#include "transport/queue.h"
#include "transport/wire.h"

#define ENCODE_DOMAINS 1024u // ids of NVTX domains are below
#define ENCODE_SEEN 32768u   // hashes of texts that were seen once

// The names behind what an event in the ring only refers to; both for the life of the process.
struct names {
  struct interned (*registered)(uint32_t index);
  struct interned (*domain)(uint32_t domain);
};

// A filling is a frame that is being filled.
struct filling {
  struct bytes body;
  struct stake stake; // its loss
};

struct encoder {
  struct queue *queue;
  struct names names;
  struct intern strings; // every text that has an id
  struct bytes strung;   // STRINGS frame being filled: it goes out before the others
  struct filling events, kernels, copies; // they go out in this order
  uint64_t *seen;        // ENCODE_SEEN of them
  uint8_t said[ENCODE_DOMAINS]; // domains that were announced
  uint8_t laid[SCHEMAS_MAX + 1]; // schemas that were, by index
  uint64_t events_seen, callbacks_seen, ranges_seen; // ever
};

// encode_event takes an event out of the ring: registered texts are looked up, repeated ones get ids.
void encode_event(struct encoder *e, const kw_event *event);
void encode_kernel(struct encoder *e, const kw_kernel *record);
void encode_copy(struct encoder *e, const kw_copy *record);

// encode_name gives the id of a kernel's name; 0 if it does not fit the bounds.
uint32_t encode_name(struct encoder *e, const char *name, uint32_t length);

// encode_close hands the frames being filled to the queue.
void encode_close(struct encoder *e);

// encode_frame puts a frame of another kind behind them.
void encode_frame(struct encoder *e, uint16_t kind, const void *body, uint32_t length);

uint64_t encode_pending(const struct encoder *e); // bytes in frames being filled
void encode_free(struct encoder *e);

#endif
