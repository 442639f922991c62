// CUPTI's activity records into the wire's.
#ifndef KERNHES_RECORDS_H
#define KERNHES_RECORDS_H

#include "capture/encode.h"
#include "capture/pool.h"

struct records {
  struct encoder *encoder;
  struct losses *losses;
  uint64_t kernels, copies; // seen, ever
};

// records_convert walks a completed buffer.
void records_convert(struct records *r, const struct buffer *b);

// records_unloading: a module is about to go, and addresses of names may come to mean others. Any thread.
void records_unloading(void);

// records_scrapped counts the records of a buffer of the reserve as lost. In CUPTI's callback: 64 KiB are 700 records
// at the most. alone: they can be walked; else their number is an estimate. Any thread.
void records_scrapped(uint8_t *bytes, uint64_t valid, bool alone);

// records_take_scrapped gives what was scrapped since it was last asked.
struct loss records_take_scrapped(void);

#endif
