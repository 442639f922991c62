// CUPTI, found and loaded at run time: what the shim needs of its ABI, written out, so that no header is needed.
#ifndef KERNHES_CUPTI_H
#define KERNHES_CUPTI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// CUptiResult
enum {
  CUPTI_OK = 0,
  CUPTI_INVALID_PARAMETER = 1,
  CUPTI_OUT_OF_MEMORY = 8,
  CUPTI_END_OF_BUFFER = 12, // MAX_LIMIT_REACHED
  CUPTI_MULTIPLE_SUBSCRIBERS = 39,
};

// CUpti_CallbackDomain
enum { CUPTI_DRIVER_API = 1, CUPTI_RESOURCE = 3, CUPTI_STATE = 6 };

// CUpti_CallbackIdResource
enum {
  CUPTI_CONTEXT_CREATED = 1,
  CUPTI_CONTEXT_DESTROY_STARTING = 2,
  CUPTI_CU_INIT_FINISHED = 5,
  CUPTI_MODULE_UNLOAD_STARTING = 7,
  CUPTI_GRAPH_DESTROY_STARTING = 10,
  CUPTI_NODE_CREATED = 13,
  CUPTI_NODE_DESTROY_STARTING = 14,
  CUPTI_EXEC_DESTROY_STARTING = 19,
  CUPTI_NODE_CLONED = 20,
  CUPTI_NODE_UPDATED = 22, // from 13.0
};

// CUpti_CallbackIdState
enum { CUPTI_FATAL_ERROR = 1, CUPTI_ERROR = 2, CUPTI_WARNING = 3 };

// CUpti_ActivityKind
enum { CUPTI_MEMCPY = 1, CUPTI_MEMSET = 2, CUPTI_KERNEL = 10, CUPTI_PEER_MEMCPY = 22 };

// CUpti_ActivityAttribute
enum { CUPTI_PER_THREAD_BUFFER = 9, CUPTI_SUBSCRIBER_STATE = 12, CUPTI_ENABLE_HES = 13 };

// Versions, as cuptiGetVersion says them.
enum {
  CUPTI_HWTRACE = 26,         // 12.8: cuptiActivityEnableHWTrace
  CUPTI_NULL_BUFFER = 27,     // 12.9: a request may be answered with no buffer
  CUPTI_13_0 = 130000,
  CUPTI_13_3 = 130300,        // the V2 calls are whole
  CUPTI_13_4 = 130400,
};

typedef struct { // CUpti_CallbackData
  uint32_t site; // 0: enter, 1: exit
  uint32_t pad;
  const char *function;
  const void *params;
  void *result;
  const char *symbol;
  void *context;
  uint32_t context_uid, pad2;
  uint64_t *data;
  uint32_t correlation, pad3;
} cupti_api_data;

typedef struct { // CUpti_ResourceData
  void *context, *handle, *descriptor;
} cupti_resource_data;

typedef struct { // CUpti_GraphData
  void *graph, *original_graph, *node, *original_node;
  uint32_t node_type, pad;
  void *dependency, *exec;
} cupti_graph_data;

typedef struct { // CUpti_StateData
  uint32_t result, pad;
  const char *message;
} cupti_state_data;

typedef struct { // CUpti_SubscriberParams
  size_t size;   // 32 in 13.0 and 13.1, 40 from 13.2
  const char *name;
  char *old_name;
  size_t old_size;
  uint8_t allow_multiple, pad[7];
} cupti_subscriber_params;

_Static_assert(sizeof(cupti_api_data) == 72 && offsetof(cupti_api_data, correlation) == 64, "CUpti_CallbackData");
_Static_assert(sizeof(cupti_resource_data) == 24 && sizeof(cupti_state_data) == 16, "CUpti_ResourceData");
_Static_assert(sizeof(cupti_graph_data) == 56 && offsetof(cupti_graph_data, exec) == 48, "CUpti_GraphData");
_Static_assert(sizeof(cupti_subscriber_params) == 40, "CUpti_SubscriberParams");

typedef void (*cupti_callback)(void *user, int domain, uint32_t id, const void *data);
typedef void (*cupti_request)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*cupti_request_v2)(uint8_t **buffer, size_t *size, size_t *records, void *info);
typedef void (*cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void (*cupti_complete_v2)(uint8_t *buffer, size_t size, size_t valid, void *info);

// A cupti is the loaded library: its functions under their own names without the prefix, NULL where it has none.
struct cupti {
  uint32_t version;
  bool v2;          // subscriptions are by the V2 calls: never mix the two
  _Atomic(void *) subscriber; // NULL: not subscribed
  atomic_bool gone; // it is being finalized, or was: nothing may be called until the next subscription
  char path[512];
  int (*GetVersion)(uint32_t *);
  int (*GetResultString)(int, const char **);
  int (*Subscribe)(void **, cupti_callback, void *);
  int (*Subscribe_v2)(void **, cupti_callback, void *, cupti_subscriber_params *);
  int (*Unsubscribe)(void *);
  int (*EnableCallback)(uint32_t, void *, int, uint32_t);
  int (*GetCallbackName)(int, uint32_t, const char **);
  int (*ActivityRegisterCallbacks)(cupti_request, cupti_complete);
  int (*ActivityRegisterCallbacks_v2)(void *, cupti_request_v2, cupti_complete_v2);
  int (*ActivityEnable)(int);
  int (*ActivityEnable_v2)(void *, int, void *);
  int (*ActivityDisable)(int);
  int (*ActivityDisable_v2)(void *, int, void *);
  int (*ActivitySetAttribute)(int, size_t *, void *);
  int (*ActivitySetAttribute_v2)(void *, int, size_t *, void *);
  int (*ActivityGetAttribute_v2)(void *, int, size_t *, void *);
  int (*ActivityGetNextRecord)(uint8_t *, size_t, void **);
  int (*ActivityGetNextRecord_v2)(void *, uint8_t *, size_t, void **);
  int (*ActivityFlushAll)(uint32_t);
  int (*ActivityGetNumDroppedRecords)(void *, uint32_t, size_t *);
  int (*ActivityGetNumDroppedRecords_v2)(void *, void *, uint32_t, size_t *);
  int (*ActivityEnableHWTrace)(uint8_t);
  int (*Finalize)(void);
  int (*GetTimestamp)(uint64_t *);
  int (*GetTimestamp_v2)(void *, uint64_t *);
  int (*GetGraphNodeId)(void *, uint64_t *);
  int (*GetGraphId)(void *, uint32_t *);
  int (*GetGraphExecId)(void *, uint32_t *);
};

extern struct cupti cupti;

// cupti_load finds the process's libcupti or loads one. False, with a line in why, if none can be used.
bool cupti_load(char *why, size_t room);

// cupti_load_beside loads libnvperf_host.so from libcupti's folder: HES needs it, and libcupti may not find it.
void cupti_load_beside(void);

const char *cupti_result(int result); // CUPTI's word for a result

// These pick the call that goes with the subscription.
int cupti_next_record(uint8_t *buffer, size_t valid, void **record);
int cupti_dropped(size_t *count);     // -1 if there is no such call
int cupti_timestamp(uint64_t *time);  // likewise
int cupti_enable(int kind, bool on);

#endif
