// The activity API: buffer callbacks, kinds, flushes, drops, clock.
#include <string.h>
#include <time.h>
#include "state.h"

static int register_callbacks(const char *call, int generation) {
  check_process(call);
  if (!mock.generation) forbid("%s without a subscriber: it would take another client's buffers", call);
  check_generation(call, generation);
  mock.registered = generation;
  return OK;
}

API int cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete) {
  if (!request || !complete) return INVALID_PARAMETER;
  pthread_mutex_lock(&mock.lock);
  mock.request = request;
  mock.complete = complete;
  pthread_mutex_unlock(&mock.lock);
  return register_callbacks("cuptiActivityRegisterCallbacks", 1);
}

static int enable(const char *call, int kind, bool on) {
  check_process(call);
  check_alive(call);
  if (kind < 1 || kind >= KINDS) return INVALID_KIND;
  if (on && !mock.generation) forbid("%s(%d) without a subscriber", call, kind);
  if (on && kind == KIND_SERIAL_KERNEL) forbid("%s(KERNEL): it serialises kernels; use CONCURRENT_KERNEL", call);
  if (on && kind == KIND_GRAPH_TRACE) forbid("%s(GRAPH_TRACE): kernels of graphs get no records then", call);
  if (mock.any_kind && mock.registered) run_pass(on ? PASS_SETTLE : PASS_KEEP, call); // what has begun before is traced as it was then
  pthread_mutex_lock(&mock.lock);
  mock.kinds[kind] = on;
  if (kind == KIND_MEMCPY) mock.kinds[KIND_PEER] = on; // implied
  mock.any_kind = memchr(mock.kinds, 1, KINDS) != NULL;
  if (on) mock.flushed = false;
  pthread_mutex_unlock(&mock.lock);
  return OK;
}

API int cuptiActivityEnable(int kind) {
  if (MOCK_V2_PREVIEW) check_generation("cuptiActivityEnable", 1);
  return enable("cuptiActivityEnable", kind, true);
}

API int cuptiActivityDisable(int kind) {
  if (MOCK_V2_PREVIEW) check_generation("cuptiActivityDisable", 1);
  return enable("cuptiActivityDisable", kind, false);
}

API int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on) { return cbid < CBIDS && on < 2 ? OK : INVALID_PARAMETER; }
API int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on) { return cbid < CBIDS && on < 2 ? OK : INVALID_PARAMETER; }

API int cuptiActivityFlushAll(uint32_t flag) {
  const char *call = "cuptiActivityFlushAll";
  check_process(call);
  check_alive(call);
  check_outside(call);
  if (flag > 1) return INVALID_PARAMETER;
  check_forced();
  if (mock.fault.flush_slow_ms) {
    struct timespec t = {(time_t)(mock.fault.flush_slow_ms / 1000), (long)(mock.fault.flush_slow_ms % 1000) * 1000000};
    nanosleep(&t, NULL);
  }
  static _Atomic uint64_t flushes;
  if (mock.fault.flush_fail && !flag && ++flushes % mock.fault.flush_fail == 0) return UNKNOWN;
  if (mock.registered) run_pass(flag ? PASS_FORCED : PASS_FLUSH, call);
  mock.flushed = true;
  if (flag && !mock.exiting && mock.any_kind) mock.forced_early = true;
  return OK;
}

API int cuptiActivityFlushPeriod(uint32_t ms) { // only ever returns full buffers, which the worker does anyway
  (void)ms;
  check_process("cuptiActivityFlushPeriod");
  return OK;
}

// A lock that the client holds here and takes in its request callback would be a deadlock now and then (Kineto's):
// having a buffer requested meanwhile makes it one each time.
static int read_dropped(const char *call, size_t *count) {
  check_process(call);
  check_alive(call);
  check_outside(call);
  if (!count || mock.fault.unreadable) return INVALID_PARAMETER;
  if (mock.registered) run_pass(PASS_SETTLE, call);
  pthread_mutex_lock(&mock.lock);
  *count = mock.dropped;
  mock.dropped = 0;
  pthread_mutex_unlock(&mock.lock);
  return OK;
}

API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  if (MOCK_V2) check_generation("cuptiActivityGetNumDroppedRecords", 1);
  return read_dropped("cuptiActivityGetNumDroppedRecords", count);
}

API int cuptiGetTimestamp(uint64_t *now) {
  if (MOCK_V2) check_generation("cuptiGetTimestamp", 1);
  check_alive("cuptiGetTimestamp");
  if (!now) return INVALID_PARAMETER;
  *now = mock_now();
  return OK;
}

// External correlation: of the numbers, two are Kineto's.
static int external(const char *call, int kind) {
  if (kind == 3 || kind == 4) forbid("%s with CUSTOM%d: Kineto's", call, kind - 3);
  return kind >= 1 && kind <= 5 ? OK : INVALID_PARAMETER;
}

static _Thread_local uint64_t externals[64];
static _Thread_local unsigned external_depth;

static int push_external(const char *call, int kind, uint64_t id) {
  int result = external(call, kind);
  if (result == OK) externals[external_depth++ % 64] = id;
  return result;
}

static int pop_external(const char *call, int kind, uint64_t *last) {
  int result = external(call, kind);
  if (result != OK || !external_depth) return INVALID_PARAMETER;
  uint64_t id = externals[--external_depth % 64];
  if (last) *last = id;
  return OK;
}

API int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
  if (MOCK_V2) check_generation("cuptiActivityPushExternalCorrelationId", 1);
  return push_external("cuptiActivityPushExternalCorrelationId", kind, id);
}

API int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last) {
  if (MOCK_V2) check_generation("cuptiActivityPopExternalCorrelationId", 1);
  return pop_external("cuptiActivityPopExternalCorrelationId", kind, last);
}

#if MOCK_V2_PREVIEW
API int cuptiActivityRegisterCallbacks_v2(void *subscriber, request_v2_fn request, complete_v2_fn complete) {
  if (!request || !complete || subscriber != mock.subscriber) return INVALID_PARAMETER;
  pthread_mutex_lock(&mock.lock);
  mock.request_v2 = request;
  mock.complete_v2 = complete;
  pthread_mutex_unlock(&mock.lock);
  return register_callbacks("cuptiActivityRegisterCallbacks_v2", 2);
}

API int cuptiActivityEnable_v2(void *subscriber, int kind, const void *config) {
  check_generation("cuptiActivityEnable_v2", 2);
  if (subscriber != mock.subscriber) return INVALID_PARAMETER;
  if (config) return NOT_SUPPORTED; // records of a client's own making
  return enable("cuptiActivityEnable_v2", kind, true);
}

API int cuptiActivityDisable_v2(void *subscriber, int kind) {
  check_generation("cuptiActivityDisable_v2", 2);
  return subscriber == mock.subscriber ? enable("cuptiActivityDisable_v2", kind, false) : INVALID_PARAMETER;
}
#endif

#if MOCK_V2
API int cuptiActivityGetNumDroppedRecords_v2(void *subscriber, void *context, uint32_t stream, size_t *count) {
  (void)context, (void)stream;
  check_generation("cuptiActivityGetNumDroppedRecords_v2", 2);
  return subscriber == mock.subscriber ? read_dropped("cuptiActivityGetNumDroppedRecords_v2", count) : INVALID_PARAMETER;
}

API int cuptiGetTimestamp_v2(void *subscriber, uint64_t *now) {
  check_generation("cuptiGetTimestamp_v2", 2);
  if (subscriber != mock.subscriber || !now) return INVALID_PARAMETER;
  *now = mock_now();
  return OK;
}

API int cuptiActivityPushExternalCorrelationId_v2(void *subscriber, int kind, uint64_t id) {
  check_generation("cuptiActivityPushExternalCorrelationId_v2", 2);
  return subscriber == mock.subscriber ? push_external("cuptiActivityPushExternalCorrelationId_v2", kind, id) : INVALID_PARAMETER;
}

API int cuptiActivityPopExternalCorrelationId_v2(void *subscriber, int kind, uint64_t *last) {
  check_generation("cuptiActivityPopExternalCorrelationId_v2", 2);
  return subscriber == mock.subscriber ? pop_external("cuptiActivityPopExternalCorrelationId_v2", kind, last) : INVALID_PARAMETER;
}
#endif
