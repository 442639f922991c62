// What the collector asks of ranges, for the engine's threads to read at each call: which of them it wants while nothing is
// traced, and where steps are pushed. All of it holds until another collector answers. One thread asks, any thread reads.
#ifndef KERNHES_ASKED_H
#define KERNHES_ASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ASKED_DOMAINS 1024u // ids of NVTX domains are below
#define ASKED_PLACES 32u    // further ones are left out

// asked_ranges: ranges down to this depth (0: all) of the default domain, of those of the places, and of those whose bit is
// set: bit n stands for domain n. Before the first call, ranges of all domains and depths are wanted.
void asked_ranges(uint64_t depth, uint64_t domains);

// asked_place: a thread (0: any) pushes its steps in this domain, so that their ranges have this depth. Depth 0: it does not
// any more. What is out of bounds is left out.
void asked_place(uint64_t domain, uint64_t thread, uint64_t depth);

// asked_nothing forgets all of it.
void asked_nothing(void);

// asked_hears tells whether a range is wanted while nothing is traced. Its depth: itself counted; or KW_DEPTH_UNKNOWN.
bool asked_hears(uint32_t domain, uint32_t depth);

// asked_at tells whether a thread's steps are pushed there.
bool asked_at(uint32_t domain, uint32_t thread, uint32_t depth);

struct place {
  uint32_t domain, thread, depth;
};

// asked_places gives the places, at most `most`, and how many there are.
size_t asked_places(struct place *to, size_t most);

#endif
