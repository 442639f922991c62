// What the command line asks for.
#ifndef KERNHES_PLAY_OPTIONS_H
#define KERNHES_PLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  double speed; // times recorded; 0: as fast as the client takes it
  bool rebase, loop, deliver_recorded, quiet, stats, help;
  uint64_t rounds;    // 0: without end
  uint32_t cupti;     // toolkit version, 130001; 0: the file's
  // Given by the parent to the processes that it starts, so that all files keep one time.
  int64_t shift;      // ns added to all times
  uint64_t anchor;    // monotonic ns at which the first frame of all is due
  uint64_t origin;    // recorded time of that frame
  uint64_t period;    // ns from round to round
  bool child;
  char **files;
  int n_files;
} options;

// read_options returns false, having said why on stderr, on what it does not understand.
bool read_options(int argc, char **argv, options *);
void print_help(void);

#endif
