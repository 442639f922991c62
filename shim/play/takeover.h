// The player takes its client's descriptors away.
#ifndef KERNHES_PLAY_TAKEOVER_H
#define KERNHES_PLAY_TAKEOVER_H

#include <stdint.h>

// takeover closes every descriptor but the first three, and opens files under the numbers that were open.
void takeover(void);

uint64_t takeover_files(void);
uint64_t takeover_harmed(void); // of those: closed, read from or written to by anybody
#endif
