// What the rooms of the mock share. One lock guards it all; it is never held while the client's code runs.
#ifndef KERNHES_MOCK_STATE_H
#define KERNHES_MOCK_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include "mock.h"
#include "version.h"

#define API __attribute__((visibility("default")))

enum { // CUptiResult
  OK = 0, INVALID_PARAMETER = 1, SIZE_NOT_SUFFICIENT = 10, END_OF_BUFFER = 12, NOT_COMPATIBLE = 14,
  NOT_INITIALIZED = 15, INVALID_KIND = 21, NOT_SUPPORTED = 27, BUSY = 39, UNKNOWN = 999
};
enum { DOMAIN_DRIVER = 1, DOMAIN_RUNTIME, DOMAIN_RESOURCE, DOMAIN_SYNCHRONIZE, DOMAIN_NVTX, DOMAIN_STATE, DOMAINS };
enum { CBIDS = 1024 };

// Which of the client's callbacks this thread is in.
enum { IN_NONE, IN_API, IN_RESOURCE, IN_STATE, IN_REQUEST, IN_COMPLETE };
extern _Thread_local int mock_inside;

typedef void (*callback_fn)(void *user, int domain, uint32_t cbid, const void *data);
typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*request_v2_fn)(uint8_t **, size_t *, size_t *, void *info);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *, size_t size, size_t valid);
typedef void (*complete_v2_fn)(uint8_t *, size_t size, size_t valid, void *info);

typedef enum { HES_REFUSED, HES_ACCEPTED, HES_LATE } hes_answer;

// Faults, from KERNHES_MOCK_FAULT; 0 or false is none. "Nth" counts kernel records.
typedef struct {
  uint64_t drop, drop_silent, zero_start, zero_end, backward, too_long, future, duplicate, unknown_kind;
  uint64_t withhold;      // the first so many kernel records
  uint64_t truncate;      // every Nth buffer
  uint64_t busy;          // so many subscriptions are refused with 39
  uint64_t reorder;       // the seed
  uint64_t late_ms, flush_slow_ms;
  uint64_t flush_fail;    // every Nth flush
  uint64_t guest_ms;      // another client comes as soon as it may subscribe, and stays so long
  uint64_t patience_ms;   // for a client's callback to return; then it is a deadlock
  uint64_t warm_up;       // kernels are dropped in silence after so many of one attachment
  uint64_t finalize_ms;   // how long cuptiFinalize takes
  uint64_t linger_us;     // how long a thread is inside CUPTI before and after the client's callback
  bool reordered, unreadable, short_buffers, hold_back, null_invalid;
  hes_answer hes;
} mock_faults;

typedef struct {
  pthread_mutex_t lock;

  // The subscription.
  callback_fn callback;
  void *user;
  _Atomic int generation;     // 0: no subscriber; else 1 or 2: which Subscribe made it
  void *subscriber;     // the handle
  uint8_t enabled[DOMAINS][CBIDS];
  uint8_t kinds[KINDS];
  _Atomic bool any_kind, finalized, orphans;

  // Buffer callbacks: those of one generation.
  _Atomic int registered; // 0, 1 or 2
  request_fn request;
  complete_fn complete;
  request_v2_fn request_v2;
  complete_v2_fn complete_v2;
  _Atomic bool zeroed_out;

  _Atomic bool initialised; // cuInit has returned
  _Atomic uint32_t contexts;
  _Atomic bool hes_asked, hes_on, latency;
  _Atomic bool lossless, exiting;
  _Atomic bool forced_early; // a forced flush while kinds were enabled and before the exit; only cuptiFinalize may follow
  _Atomic bool flushed;      // since a kind was last enabled
  _Atomic uint32_t inside;   // threads in a callback of the client's, or about to be
  _Atomic uint32_t attachment; // counts what cuptiFinalize ended
  _Atomic bool finalizing;
  _Atomic uint64_t replays_until; // the GPU writes to what CUPTI allocated, unix ns
  _Atomic uint64_t launches;      // since a kind was first enabled in this attachment
  uint64_t guest_until;  // CLOCK_MONOTONIC, ns: another client is subscribed
  uint64_t dropped;     // not yet read
  mock_faults fault;
  mock_stats stats;
} mock_state;

extern mock_state mock;

// forbid.c
_Noreturn void forbid(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check_process(const char *call);
void check_alive(const char *call);                // cuptiFinalize was not called, or a subscriber came since
void check_outside(const char *call);              // not in a buffer, resource or state callback
void check_generation(const char *call, int generation);
void check_forced(void);                           // a forced flush was meant to be the last

// faults.c
void read_faults(mock_faults *);

// callbacks.c
typedef struct { uint32_t result; uint32_t pad; const char *message; } state_data;
void fire(int inside, int domain, uint32_t cbid, const void *data);
void fire_state(uint32_t cbid, uint32_t result, const char *message);
uint32_t tracing(void);
void replays(uint64_t end, uint32_t attachment);
void launch_enter(mock_launch *);
void launch_exit(mock_launch *);

// graphs.c
void *first_context(void);
uint32_t first_context_id(void);
void driver_initialised(void);
void context_created(uint32_t context, uint32_t device);
void context_destroyed(uint32_t context);
void *context_handle(uint32_t context);
void node_created(uint64_t node, uint32_t type);
void node_cloned(uint64_t original, uint64_t clone);
void graph_instantiated(uint32_t graph, uint32_t exec);
void graph_destroyed(uint32_t graph);

// subscribe.c
bool others(void); // another client is subscribed

// hes.c
bool hes_initialised(void); // false: what was asked for earlier is refused now
void hes_refused_late(void);
void hes_context(void);

// buffers.c: all on the worker but prefetch_buffer
typedef struct {
  uint8_t *start;
  size_t size, used, records, limit;
  uint64_t sum, key;
  bool owned; // by the mock
} mock_buffer;
void prefetch_buffer(void);
bool owns_buffers(void);                           // needs the lock
mock_buffer *take_buffer(void);                    // NULL: the client has none
void *buffer_room(mock_buffer *, size_t bytes);    // NULL: full
void buffer_wrote(mock_buffer *, size_t bytes);
void complete_buffer(mock_buffer *);
void return_spare(void);
size_t known_valid(const uint8_t *start);          // (size_t)-1: not a completed buffer; forbids one that the mock owns

// records.c
typedef struct { const mock_record *record; const mock_offer *offer; bool unfinished, kept; } due_record;
uint64_t record_start(const mock_record *);
uint64_t record_ready(const mock_record *);        // recorded time at which it has ended
bool emit_record(const due_record *);              // false: no room and no buffer; nothing was done
void seal_current(void);                           // the buffer that is being filled is complete
void deliver_sealed(void);
void release_withheld(void);                       // all else has been written
bool holding_records(void);                        // written and not yet delivered

// worker.c
typedef enum { PASS_SETTLE, PASS_KEEP, PASS_FLUSH, PASS_FORCED } pass_kind; // KEEP: settle, and keep what runs
void run_pass(pass_kind, const char *call);        // waits until the worker has done it
void start_worker(void);
void offer_records(const mock_offer *);
bool starved(void);
uint64_t pending_records(void);

uint64_t mock_now(void); // CLOCK_REALTIME, which a player interposes

static inline uint64_t mix(uint64_t x) { // splitmix64: the same disorder for the same seed
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

#endif
