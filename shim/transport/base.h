// The base: what frames that are gone (acknowledged or dropped) did to all that later frames rest on.
// A collector that starts anew is given it as the snapshot.
#ifndef KERNHES_BASE_H
#define KERNHES_BASE_H

#include "transport/bytes.h"
#include "transport/intern.h"
#include "transport/nodes.h"
#include "transport/ranges.h"

#include <stdbool.h>
#include <stdint.h>

#define BASE_TOLD 32u         // payloads of pops that are kept, of each schema: the first
#define BASE_TELLERS 256u     // schemas of which any are
#define BASE_TOLD_BYTES (512u << 10)

// A teller is a schema whose payloads came with pops.
struct teller {
  uint64_t schema;
  uint32_t domain, told;
};

struct base {
  uint64_t number;      // of the last frame that was folded
  uint32_t strings;     // ids up to this one were given in folded frames
  uint32_t correlation; // of the last launch in frames that a collector has had
  bool launched;        // there was one
  struct bytes pairs;   // of HELLO, as INFO changed them
  struct bytes manifest;
  struct bytes domains; // DOMAIN events, as they went out
  struct bytes schemas; // SCHEMA events, likewise
  struct bytes told;    // PUSH, PAYLOAD, POP on thread 0 of ranges whose pop had a payload
  struct teller *tellers;
  uint32_t teller_count;
  struct nodes nodes;
  struct ranges ranges;
  struct intern labels; // sets of texts: the thread-0 PUSH events that give them in a snapshot
  struct bytes label;   // scratch
  uint64_t dropped;     // nodes, labels and ranges that did not fit
};

// base_fold takes one frame's effect in. The body is one that the shim wrote: it is believed. True if there is a launch in
// it; then *correlation is that of the last one.
bool base_fold(struct base *b, uint64_t number, uint16_t kind, const uint8_t *body, uint32_t length, uint32_t *correlation);

// base_snapshot appends the frames of the snapshot, BASE the last; strings are all that were ever given.
// now (unix ns) is the time of events that have none of their own. False if there is no memory.
bool base_snapshot(const struct base *b, const struct intern *strings, uint64_t now, struct bytes *out);

// base_strings appends one STRINGS frame with the number of the last folded frame: for a collector that knows the session,
// and so reads past the snapshot, but missed frames that gave names. False if there is no memory.
bool base_strings(const struct base *b, const struct intern *strings, struct bytes *out);

void base_free(struct base *b);

#endif
