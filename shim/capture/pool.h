// Activity buffers: a fixed pool that is lent to CUPTI and comes back through the sender.
#ifndef KERNHES_POOL_H
#define KERNHES_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_MOST 4096u // buffers
#define POOL_EARLY_BYTES (64u << 10)

struct buffer {
  uint8_t *bytes;
  uint64_t valid;        // bytes of records, once completed
  struct buffer *next;   // in the list that pool_completed gives
};

// pool_open maps and prefaults count buffers of size bytes each; false if there is no memory.
bool pool_open(uint32_t count, uint64_t size);

// pool_lend gives a buffer and its size in bytes, or NULL if all are out. Lock-free, any thread. CUPTI may ask before
// the first context: then there is one small buffer, until the pool is open.
uint8_t *pool_lend(uint64_t *size);

// pool_complete queues a buffer that CUPTI is done with; one that is not of the pool is ignored. Lock-free.
void pool_complete(uint8_t *bytes, uint64_t valid);

// pool_completed takes all that were completed, in that order; NULL if none. One thread only.
struct buffer *pool_completed(void);
void pool_return(struct buffer *b);

// pool_reclaim takes back what CUPTI has kept, and gives how many that were: once it is finalized, and all that was
// completed has been returned.
uint32_t pool_reclaim(void);

// pool_low is true while fewer than a quarter of the buffers are free.
bool pool_low(void);

uint64_t pool_waiting(void);  // bytes completed and not returned
uint32_t pool_out(void);      // buffers out of the pool
uint32_t pool_out_most(void); // the most there ever were
uint64_t pool_requests(void);

#endif
