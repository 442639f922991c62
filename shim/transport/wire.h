// The wire between libkernhes.so and the collector: every number and every layout, once.
// internal/wire/WIRE.md says what they mean; this file pins where they lie.
// All integers are little-endian. Nothing here may change but by adding: numbers are frozen by tests on both sides.
#ifndef KERNHES_WIRE_H
#define KERNHES_WIRE_H

#include <stdint.h>

#define KW_VERSION 1u
#define KW_MAGIC 0x315345484e52454bull // "KERNHES1" as it lies in memory
#define KW_MAX_BODY (16u << 20)        // bytes; a longer body ends the connection
#define KW_MAX_TEXT 4096u              // bytes of one text in an event; longer ones are cut by the sender

// Kinds of frames. Shim to collector below 64, collector to shim from 64.
#define KW_HELLO 1u
#define KW_INFO 2u
#define KW_STRINGS 3u
#define KW_EVENTS 4u
#define KW_KERNELS 5u
#define KW_COPIES 6u
#define KW_FLUSHED 7u
#define KW_LOST 8u
#define KW_STATS 9u
#define KW_MANIFEST 10u
#define KW_CLOCK 11u
#define KW_BASE 12u
#define KW_BYE 13u
#define KW_WELCOME 64u
#define KW_ACK 65u
#define KW_CONTROL 66u
#define KW_REFUSED 67u

// Flags of a frame.
#define KW_PINNED 1u // part of the snapshot between WELCOME and BASE; its sequence number is 0

// Kinds of events.
#define KW_PUSH 1u
#define KW_POP 2u
#define KW_START 3u
#define KW_END 4u
#define KW_LAUNCH 5u
#define KW_CAPTURED 6u
#define KW_NODE_CREATED 7u
#define KW_NODE_CLONED 8u
#define KW_GRAPH_FORGOTTEN 9u
#define KW_NODE_FORGOTTEN 10u
#define KW_DOMAIN 11u
#define KW_SCHEMA 12u
#define KW_PAYLOAD 13u
#define KW_TRACING_ON 14u
#define KW_TRACING_OFF 15u

#define KW_DEPTH_UNKNOWN 0xffffffffu
#define KW_LAUNCH_GRAPH 1u        // kw_launch.flags: a graph launch
#define KW_NODE_IN_LAUNCH 1u      // kw_node_created.flags: made inside a kernel launch call, so it is a kernel
#define KW_THREAD_LABELS 0u       // thread of pinned pushes that only label pinned nodes; never a step
#define KW_MAX_PAYLOAD 512u       // bytes of one payload in an event; longer ones are cut by the sender
#define KW_SCHEMA_ENUM 0x80u      // kw_schema.type: an enumeration; entries are its values, kw_schema_entry.type the value
#define KW_SITE_MARK 0u           // kw_payload.site, else KW_PUSH, KW_POP, KW_START, KW_END: which call brought the payload

// Why tracing began or ended: kw_tracing.reason.
#define KW_TRACING_ORDERED 1u   // ON and OFF: as the order says
#define KW_TRACING_CANCELLED 2u // OFF: the collector cancelled the window
#define KW_TRACING_YIELDED 3u   // OFF: the collector asked to yield CUPTI
#define KW_TRACING_OVERDUE 4u   // OFF: no thread came to an edge; the step that ran then is cut
#define KW_TRACING_FAILED 5u    // OFF: CUPTI reported an error

// Why records were lost, as the shim knows it.
#define KW_LOST_CUPTI_DROPPED 1u  // CUPTI's own drop counter
#define KW_LOST_HES_BUFFER 2u     // the hardware event buffer overflowed; reserved: CUPTI does not say so
#define KW_LOST_SHIM_POOL 3u      // no activity buffer was free
#define KW_LOST_SHIM_BUFFER 4u    // more unacknowledged bytes than the bound: oldest frames dropped
#define KW_LOST_SHIM_EVENTS 5u    // the ring from the engine's threads was full
#define KW_LOST_SHIM_MALFORMED 6u // an activity record that could not be walked or was cut short

// What was lost.
#define KW_OF_RECORDS 0u // kernels or copies, not known which
#define KW_OF_KERNELS 1u
#define KW_OF_COPIES 2u
#define KW_OF_EVENTS 3u

#define KW_READABLE 1u // kw_flushed.flags: CUPTI's drop counter could be read

// Commands of CONTROL.
#define KW_COMMAND_WINDOW 1u // argument[0]: start, [1]: end, unix ns; end 0: cancel; [2]: id of the window
#define KW_COMMAND_YIELD 2u // argument[0]: ns after which the shim takes CUPTI back by itself
#define KW_COMMAND_RESUME 3u
#define KW_COMMAND_PLACE 4u  // argument[0]: domain, [1]: thread (0: any), [2]: depth after the push of a step (0: forget)
#define KW_COMMAND_RANGES 5u // argument[0]: greatest depth of ranges sent while nothing is traced (0: all), [1]: domains, as bits

// Keys of STATS; values are totals since the process started unless said otherwise.
#define KW_STAT_CPU_NS 1u             // CPU time of the shim's own threads
#define KW_STAT_SENT_BYTES 2u
#define KW_STAT_QUEUED_BYTES 3u       // now: frames not yet acknowledged
#define KW_STAT_QUEUED_BYTES_MAX 4u
#define KW_STAT_BUFFERS 5u            // now: activity buffers out of the pool
#define KW_STAT_BUFFERS_MAX 6u
#define KW_STAT_CALLBACKS 7u
#define KW_STAT_KERNELS 8u            // kernel records seen
#define KW_STAT_COPIES 9u             // copy and memset records seen
#define KW_STAT_EVENTS 10u
#define KW_STAT_CONNECTS 11u
#define KW_STAT_FLUSHES 12u
#define KW_STAT_FLUSH_NS 13u
#define KW_STAT_SLOW_FLUSHES 14u      // longer than a second
#define KW_STAT_TEXTS_CUT 15u         // texts longer than KW_MAX_TEXT
#define KW_STAT_PINNED_DROPPED 16u    // graph nodes, strings, or ranges that did not fit the snapshot
#define KW_STAT_BUFFER_REQUESTS 17u
// What the shim takes of the engine's threads, and of CUPTI's. Not what CUPTI takes itself.
#define KW_STAT_CALLBACK_NS 18u       // in CUPTI's launch and graph callbacks, estimated
#define KW_STAT_RANGE_NS 19u          // in NVTX calls, estimated
#define KW_STAT_BUFFER_NS 20u         // in CUPTI's buffer callbacks
#define KW_STAT_RANGES 21u            // NVTX calls
// Windows: sent in the mode `windows` only.
#define KW_STAT_WINDOWS 22u           // windows that were traced and left
#define KW_STAT_WINDOWS_LEFT 23u      // now: how many more there may be in this process
#define KW_STAT_WINDOWS_MISSED 24u    // orders that were not carried out
#define KW_STAT_HOLDS 25u             // times that a thread of the engine was held at an edge
#define KW_STAT_HELD_NS 26u           // how long, in all
#define KW_STAT_HOLDS_FAILED 27u      // of the holds, those that ended before CUPTI was left
#define KW_STAT_FINALIZE_NS 28u       // in cuptiFinalize, in all: part of HELD_NS

// Reasons of BYE.
#define KW_BYE_EXIT 1u
#define KW_BYE_DETACH 2u

// Codes of REFUSED.
#define KW_REFUSED_VERSION 1u
#define KW_REFUSED_LIMIT 2u
#define KW_REFUSED_PROTOCOL 3u
#define KW_REFUSED_AUTH 4u

#define KW_LAYOUT __attribute__((packed, aligned(8)))

typedef struct KW_LAYOUT {
  uint32_t length; // of the body
  uint16_t kind;
  uint16_t flags;
  uint64_t number; // 1, 2, 3, ... over the session; 0: not numbered
} kw_frame;

typedef struct KW_LAYOUT { // HELLO: this, then key-values
  uint64_t magic;
  uint16_t version;
  uint16_t zero;
  uint32_t zero2;
  uint64_t session; // random; the same over reconnects of one process
} kw_hello;

typedef struct __attribute__((packed)) { // HELLO, INFO: this, key, value, end to end
  uint16_t key_length;
  uint16_t zero;
  uint32_t value_length;
} kw_pair;

typedef struct KW_LAYOUT { // STRINGS: this, text, zeros up to a multiple of 8, end to end
  uint32_t id; // from 1
  uint32_t length;
} kw_string;

typedef struct KW_LAYOUT { // EVENTS: each begins so
  uint16_t kind;
  uint16_t length; // bytes of the whole event with this head and its padding: a multiple of 8
  uint32_t thread;
  uint64_t time; // unix ns
} kw_event;

typedef struct KW_LAYOUT { // PUSH; then text, zeros
  kw_event head;
  uint32_t domain; // 0: the default domain
  uint32_t text;   // string id; 0: the text follows
  uint32_t length; // of the text that follows
  uint32_t depth;  // of that thread in that domain, after; or KW_DEPTH_UNKNOWN
} kw_push;

typedef struct KW_LAYOUT { // POP
  kw_event head;
  uint32_t domain;
  uint32_t depth; // after
} kw_pop;

typedef struct KW_LAYOUT { // START; then text, zeros
  kw_event head;
  uint64_t range;
  uint32_t domain;
  uint32_t text;
  uint32_t length;
  uint32_t zero;
} kw_start;

typedef struct KW_LAYOUT { // END
  kw_event head;
  uint64_t range;
} kw_end;

typedef struct KW_LAYOUT { // LAUNCH, CAPTURED
  kw_event head;
  uint32_t correlation;
  uint32_t flags;
} kw_launch;

typedef struct KW_LAYOUT { // NODE_CREATED
  kw_event head;
  uint64_t node;
  uint32_t flags;
  uint32_t type; // CUgraphNodeType as CUPTI gave it
} kw_node_created;

typedef struct KW_LAYOUT { // NODE_CLONED: clone takes the label of original, also when it had another
  kw_event head;
  uint64_t original;
  uint64_t clone;
} kw_node_cloned;

typedef struct KW_LAYOUT { // GRAPH_FORGOTTEN: nodes whose id >> 32 is graph
  kw_event head;
  uint32_t graph;
  uint32_t zero;
} kw_graph_forgotten;

typedef struct KW_LAYOUT { // NODE_FORGOTTEN
  kw_event head;
  uint64_t node;
} kw_node_forgotten;

typedef struct KW_LAYOUT { // DOMAIN; then text, zeros
  kw_event head;
  uint32_t domain;
  uint32_t length;
} kw_domain;

typedef struct KW_LAYOUT { // SCHEMA: the layout of payloads with this id; then entries
  kw_event head;
  uint64_t schema; // NVTX's schema id, unique in the domain
  uint32_t domain;
  uint32_t size;   // bytes of a payload; 0: not fixed or not known
  uint32_t pack;   // alignment in bytes; 0: natural
  uint32_t length; // of the entries that follow, end to end
  uint32_t count;  // of entries as registered: more than follow where they did not fit
  uint32_t type;   // NVTX's schema type, or KW_SCHEMA_ENUM
} kw_schema;

typedef struct KW_LAYOUT { // then name, zeros up to a multiple of 8
  uint64_t type;   // NVTX's entry type, or the id of a schema or an enumeration
  uint64_t flags;  // NVTX's entry flags
  uint64_t offset; // bytes; 0 of an entry that is not the first: follows the one before, aligned
  uint64_t detail; // NVTX's arrayOrUnionDetail
  uint32_t length; // of the name
  uint32_t zero;
} kw_schema_entry;

typedef struct KW_LAYOUT { // PAYLOAD: after PUSH and START, before POP and END of its range; then bytes, zeros
  kw_event head;
  uint64_t range;  // of START, END; else 0
  uint32_t domain;
  uint32_t depth;  // of PUSH, POP: of the thread in the domain, the range counted; or KW_DEPTH_UNKNOWN
  uint64_t schema;
  uint32_t length; // of the bytes that follow
  uint32_t size;   // as the sender gave it: more than length where it was cut
  uint32_t site;
  uint32_t zero;
} kw_payload;

typedef struct KW_LAYOUT { // TRACING_ON, TRACING_OFF
  kw_event head;
  uint64_t window; // id of the order
  uint32_t reason;
  uint32_t zero;
} kw_tracing;

typedef struct KW_LAYOUT { // KERNELS: an array
  uint64_t start; // CUPTI's clock, unix ns; 0: not known
  uint64_t end;
  uint64_t node; // graphNodeId; 0: not from a graph
  uint32_t correlation;
  uint32_t name; // string id; 0: not known
  uint32_t stream;
  uint16_t device;
  uint16_t registers; // per thread
  uint32_t grid_x;
  uint16_t grid_y, grid_z;
  uint16_t block_x, block_y, block_z;
  uint16_t context;       // its low 16 bits
  uint32_t shared_static; // bytes
  uint32_t shared_dynamic;
} kw_kernel;

typedef struct KW_LAYOUT { // COPIES: an array
  uint64_t start;
  uint64_t end;
  uint64_t node;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t stream;
  uint16_t device;
  uint8_t kind;      // CUpti_ActivityKind: 1 memcpy, 2 memset, 22 peer memcpy
  uint8_t copy_kind; // CUpti_ActivityMemcpyKind; 0 for a memset
  uint8_t src_kind;  // CUpti_ActivityMemoryKind; of a memset: the memory it sets
  uint8_t dst_kind;
  uint16_t flags;
  uint16_t src_device; // of a peer memcpy
  uint16_t dst_device;
  uint32_t context;
  uint64_t zero;
} kw_copy;

typedef struct KW_LAYOUT { // FLUSHED: watermark and heartbeat
  uint64_t now;       // unix ns
  uint64_t flushed;   // when the last completed flush began: what had ended by then has been sent. 0: none yet
  uint64_t monotonic; // CLOCK_MONOTONIC at now
  uint32_t flags;
  uint32_t zero;
} kw_flushed;

typedef struct KW_LAYOUT { // LOST
  uint32_t reason;
  uint32_t what;
  uint64_t count;
  uint64_t from; // unix ns: not before; 0: not known
  uint64_t to;
} kw_lost;

typedef struct KW_LAYOUT { // STATS: an array
  uint32_t key;
  uint32_t zero;
  uint64_t value;
} kw_stat;

typedef struct KW_LAYOUT { // CLOCK: CUPTI's clock bracketed
  uint64_t before; // CLOCK_REALTIME
  uint64_t cupti;  // cuptiGetTimestamp
  uint64_t after;  // CLOCK_REALTIME
  uint64_t monotonic;
} kw_clock;

typedef struct KW_LAYOUT { // BASE: the snapshot ends; it is the state after frame number
  uint64_t number;
  uint32_t correlation; // of the last launch in frames up to number that a collector has had
  uint32_t launches;    // 1 if there was one
} kw_base;

typedef struct KW_LAYOUT { // BYE
  uint32_t reason;
  uint32_t zero;
  uint64_t kernels; // as the statistic
  uint64_t copies;
} kw_bye;

typedef struct KW_LAYOUT { // WELCOME
  uint64_t magic;
  uint16_t version;
  uint16_t zero;
  uint32_t zero2;
  uint64_t acknowledged; // highest frame that may be freed; 0: nothing is known of the session
  uint64_t received;     // highest frame that need not be sent again
} kw_welcome;

typedef struct KW_LAYOUT { // ACK: cumulative
  uint64_t number;
} kw_ack;

typedef struct KW_LAYOUT { // CONTROL
  uint32_t command;
  uint32_t zero;
  uint64_t argument[4];
} kw_control;

typedef struct KW_LAYOUT { // REFUSED; then text
  uint32_t code;
  uint32_t length;
} kw_refused;

#define KW_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size on the wire")
#define KW_AT(type, field, offset) \
  _Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " lies elsewhere on the wire")

KW_SIZE(kw_frame, 16);
KW_AT(kw_frame, kind, 4);
KW_AT(kw_frame, flags, 6);
KW_AT(kw_frame, number, 8);
KW_SIZE(kw_hello, 24);
KW_AT(kw_hello, version, 8);
KW_AT(kw_hello, session, 16);
KW_SIZE(kw_pair, 8);
KW_AT(kw_pair, value_length, 4);
KW_SIZE(kw_string, 8);
KW_SIZE(kw_event, 16);
KW_AT(kw_event, length, 2);
KW_AT(kw_event, thread, 4);
KW_AT(kw_event, time, 8);
KW_SIZE(kw_push, 32);
KW_AT(kw_push, text, 20);
KW_AT(kw_push, length, 24);
KW_AT(kw_push, depth, 28);
KW_SIZE(kw_pop, 24);
KW_AT(kw_pop, depth, 20);
KW_SIZE(kw_start, 40);
KW_AT(kw_start, domain, 24);
KW_AT(kw_start, text, 28);
KW_AT(kw_start, length, 32);
KW_SIZE(kw_end, 24);
KW_SIZE(kw_launch, 24);
KW_AT(kw_launch, flags, 20);
KW_SIZE(kw_node_created, 32);
KW_AT(kw_node_created, flags, 24);
KW_AT(kw_node_created, type, 28);
KW_SIZE(kw_node_cloned, 32);
KW_AT(kw_node_cloned, clone, 24);
KW_SIZE(kw_graph_forgotten, 24);
KW_SIZE(kw_node_forgotten, 24);
KW_SIZE(kw_domain, 24);
KW_AT(kw_domain, length, 20);
KW_SIZE(kw_schema, 48);
KW_AT(kw_schema, schema, 16);
KW_AT(kw_schema, domain, 24);
KW_AT(kw_schema, size, 28);
KW_AT(kw_schema, pack, 32);
KW_AT(kw_schema, length, 36);
KW_AT(kw_schema, count, 40);
KW_AT(kw_schema, type, 44);
KW_SIZE(kw_schema_entry, 40);
KW_AT(kw_schema_entry, flags, 8);
KW_AT(kw_schema_entry, offset, 16);
KW_AT(kw_schema_entry, detail, 24);
KW_AT(kw_schema_entry, length, 32);
KW_SIZE(kw_payload, 56);
KW_AT(kw_payload, domain, 24);
KW_AT(kw_payload, depth, 28);
KW_AT(kw_payload, schema, 32);
KW_AT(kw_payload, length, 40);
KW_AT(kw_payload, size, 44);
KW_AT(kw_payload, site, 48);
KW_SIZE(kw_tracing, 32);
KW_AT(kw_tracing, window, 16);
KW_AT(kw_tracing, reason, 24);
KW_SIZE(kw_kernel, 64);
KW_AT(kw_kernel, end, 8);
KW_AT(kw_kernel, node, 16);
KW_AT(kw_kernel, correlation, 24);
KW_AT(kw_kernel, name, 28);
KW_AT(kw_kernel, stream, 32);
KW_AT(kw_kernel, device, 36);
KW_AT(kw_kernel, registers, 38);
KW_AT(kw_kernel, grid_x, 40);
KW_AT(kw_kernel, grid_y, 44);
KW_AT(kw_kernel, grid_z, 46);
KW_AT(kw_kernel, block_x, 48);
KW_AT(kw_kernel, block_y, 50);
KW_AT(kw_kernel, block_z, 52);
KW_AT(kw_kernel, context, 54);
KW_AT(kw_kernel, shared_static, 56);
KW_AT(kw_kernel, shared_dynamic, 60);
KW_SIZE(kw_copy, 64);
KW_AT(kw_copy, bytes, 24);
KW_AT(kw_copy, correlation, 32);
KW_AT(kw_copy, stream, 36);
KW_AT(kw_copy, device, 40);
KW_AT(kw_copy, kind, 42);
KW_AT(kw_copy, copy_kind, 43);
KW_AT(kw_copy, src_kind, 44);
KW_AT(kw_copy, dst_kind, 45);
KW_AT(kw_copy, flags, 46);
KW_AT(kw_copy, src_device, 48);
KW_AT(kw_copy, dst_device, 50);
KW_SIZE(kw_flushed, 32);
KW_AT(kw_flushed, flushed, 8);
KW_AT(kw_flushed, monotonic, 16);
KW_AT(kw_flushed, flags, 24);
KW_SIZE(kw_lost, 32);
KW_AT(kw_lost, count, 8);
KW_AT(kw_lost, from, 16);
KW_AT(kw_lost, to, 24);
KW_SIZE(kw_stat, 16);
KW_AT(kw_stat, value, 8);
KW_SIZE(kw_clock, 32);
KW_SIZE(kw_base, 16);
KW_AT(kw_base, correlation, 8);
KW_AT(kw_base, launches, 12);
KW_SIZE(kw_bye, 24);
KW_AT(kw_bye, kernels, 8);
KW_SIZE(kw_welcome, 32);
KW_AT(kw_welcome, version, 8);
KW_AT(kw_welcome, acknowledged, 16);
KW_AT(kw_welcome, received, 24);
KW_SIZE(kw_ack, 8);
KW_SIZE(kw_control, 40);
KW_AT(kw_control, argument, 8);
KW_SIZE(kw_refused, 8);

#endif
