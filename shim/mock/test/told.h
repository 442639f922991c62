// A process and the text of what a collector is told of it.
#ifndef KERNHES_MOCK_TOLD_H
#define KERNHES_MOCK_TOLD_H

#include "host.h"

typedef struct {
  const char *name, *version, *settings; // VARIABLE=value, with spaces
  void (*run)(void);
  uint64_t yield_ms; // the collector has it yield for so long at its first kernel
  const char *state; // of itself; after a *, only how it ends
  const char *events, *records;
} told_case;

extern const told_case told_cases[]; // up to one without a name

#endif
