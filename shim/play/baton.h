// One real thread for each recorded one. Only the one that holds the baton runs, so calls keep the file's order.
#ifndef KERNHES_PLAY_BATON_H
#define KERNHES_PLAY_BATON_H

#include <stdint.h>

// run_threads has `leg` run on the thread whose turn it is; it returns whose turn is next, or a negative number at
// the end. Turn 0 is the calling thread; the others are started at their first turn and end with the run.
void run_threads(uint32_t n, int64_t (*leg)(uint32_t thread));

#endif
