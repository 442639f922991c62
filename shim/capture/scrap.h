// The reserve for a CUPTI that crashes when it is given no buffer: what is written there is counted and thrown away.
#ifndef KERNHES_SCRAP_H
#define KERNHES_SCRAP_H

#include <stdbool.h>
#include <stdint.h>

#define SCRAP_BYTES (64u << 10) // of one: some 300 kernels
#define SCRAPS 1024u            // 64 MiB of addresses
#define SCRAPS_WARM 32u         // are memory from the start; of the others only what was ever lent

// scrap_open maps the reserve; false if there is no memory. Once.
bool scrap_open(void);

// scrap_lend gives one and its size in bytes; never NULL once the reserve is open. If all are out it is one that is lent
// as often as it is asked for: CUPTI then writes over its own records, which are lost anyway. Lock-free, any thread.
uint8_t *scrap_lend(uint64_t *size);

// scrap_owns tells a buffer of the reserve, and whether records in it can be walked: its only borrower wrote them.
bool scrap_owns(const uint8_t *bytes, bool *alone);

// scrap_return takes one back.
void scrap_return(uint8_t *bytes);

#endif
