// Plays one recording in this process, frame by frame.
#ifndef KERNHES_PLAY_PLAY_H
#define KERNHES_PLAY_PLAY_H

#include "options.h"
#include "recording.h"

typedef struct {
  uint64_t launches, rounds;
  double seconds; // real ones
  bool stopped;   // by a signal
} outcome;

// play runs through the file until its end, the last round's end, or *stop; records and clock then stand at the end.
void play(const recording *, const options *, _Atomic bool *stop, outcome *);

#endif
