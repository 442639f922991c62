// A recording (.krec, .krec.zst) in memory: its frames in the order of the file, its records, its threads.
#ifndef KERNHES_PLAY_RECORDING_H
#define KERNHES_PLAY_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../mock/mock.h"

enum { META = 1, RAW, NAME, LAUNCH, PUSH, POP, DROPPED, NODE_CREATED, NODE_CLONED, CLOCKS, GRAPH_EXEC, DOMAIN, CAPTURED, SCHEMA,
       PUSH_PAYLOAD, POP_PAYLOAD };

typedef struct {
  const uint8_t *body;
  uint64_t time;   // unix ns as recorded; of a frame that has none, the one before's
  uint32_t length;
  uint32_t thread; // index into threads: on which it happened
  size_t record, records; // RAW: its records
  uint8_t kind;
  bool captured;   // LAUNCH: its CAPTURED comes later in the file
} frame;

typedef struct { uint32_t context, device; } gpu_context;

typedef struct {
  const char *path;
  uint8_t *bytes;
  size_t length;
  frame *frames;
  size_t n_frames;
  mock_record *records;
  size_t n_records;
  char **names;      // what records' names point at
  size_t n_names;
  uint32_t *threads; // recorded thread ids; the first is the one that begins
  uint32_t n_threads;
  gpu_context contexts[64];
  uint32_t n_contexts;
  uint64_t first, last; // of all frames' times and all records' ends
  uint32_t cupti;       // cuptiGetVersion
  char rank[24];        // "" if the file names none
  uint64_t kernels, copies, launches;
  uint32_t correlation_low, correlation_high, correlation_middle; // of launches; the middle is of the middle launch
} recording;

// read_recording reads a file whole. On a file that is not one it says why on stderr, and returns false.
bool read_recording(const char *path, recording *);
void free_recording(recording *);

static inline uint32_t get32(const uint8_t *b, size_t at) { uint32_t v; __builtin_memcpy(&v, b + at, 4); return v; }
static inline uint64_t get64(const uint8_t *b, size_t at) { uint64_t v; __builtin_memcpy(&v, b + at, 8); return v; }

#endif
