// Ranges of later rounds: an engine that runs on counts its steps on.
#ifndef KERNHES_PLAY_SEQUENCE_H
#define KERNHES_PLAY_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>
#include "recording.h"

// sequence_period is how far the numbers after "seq=" of the default domain's ranges go on in one round.
uint64_t sequence_period(const recording *);
// sequence_shift copies text with its seq= moved on, into room for length + 24 bytes; gives the new length.
size_t sequence_shift(const char *text, size_t length, uint64_t by, char *out);

#endif
