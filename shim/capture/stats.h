// The shim's measurement of itself.
#ifndef KERNHES_STATS_H
#define KERNHES_STATS_H

#include "capture/encode.h"
#include "capture/flusher.h"
#include "capture/records.h"
#include "transport/link.h"

struct stats_source {
  const struct encoder *encoder;
  const struct records *records;
  const struct queue *queue;
  const struct link *link;
  const struct flush_report *report;
};

// stats_body appends the body of a STATS frame. On the sender's thread: it counts that thread's CPU time.
void stats_body(const struct stats_source *from, struct bytes *body);

#endif
