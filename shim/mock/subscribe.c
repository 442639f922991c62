// Subscribers, and which callbacks they get.
#include <string.h>
#include <time.h>
#include "state.h"

typedef struct {
  size_t size;
  const char *name;
  char *old_name;
  size_t old_size;
  uint8_t allow_multiple; // from 13.2
  uint8_t pad[7];
} subscriber_params;
_Static_assert(sizeof(subscriber_params) == 40, "CUpti_SubscriberParams");

enum { BEGIN_TO_GRAPH = 701 }; // the mock's own number

static uint64_t ticks(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t); // real time, also while a player plays recorded time
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool others(void) { return mock.fault.busy || ticks() < mock.guest_until; }

// let_in lets the client in that has waited for this: it registers buffers of its own. Needs the lock.
static void let_in(void) {
  if (!mock.fault.guest_ms || mock.exiting) return;
  if (owns_buffers()) forbid("another client subscribes while CUPTI holds a buffer of the last one's: it would be handed that");
  mock.guest_until = ticks() + mock.fault.guest_ms * 1000000;
  mock.stats.guests++;
}

static int subscribe(const char *call, int generation, void **subscriber, callback_fn callback, void *user) {
  check_process(call);
  if (!subscriber) return INVALID_PARAMETER;
  pthread_mutex_lock(&mock.lock);
  if (mock.generation) forbid("%s while the process's own subscriber is there: unsubscribe first", call);
  if (others()) {
    if (mock.fault.busy && mock.fault.busy != UINT64_MAX) mock.fault.busy--;
    pthread_mutex_unlock(&mock.lock);
    return BUSY;
  }
  static char handle[64]; // a subscriber is only ever compared
  mock.generation = generation;
  mock.finalized = false;
  mock.callback = callback;
  mock.user = user;
  mock.subscriber = *subscriber = handle;
  memset(mock.enabled, 0, sizeof mock.enabled);
  pthread_mutex_unlock(&mock.lock);
  return OK;
}

API int cuptiSubscribe(void **subscriber, callback_fn callback, void *user) {
  return subscribe("cuptiSubscribe", 1, subscriber, callback, user);
}

#if MOCK_SUBSCRIBE_V2
API int cuptiSubscribe_v2(void **subscriber, callback_fn callback, void *user, subscriber_params *params) {
  if (!params) return INVALID_PARAMETER;
  if (params->size != MOCK_SUBSCRIBER_PARAMS)
    forbid("cuptiSubscribe_v2 with structSize %zu; CUPTI %d has %d", params->size, MOCK_API, MOCK_SUBSCRIBER_PARAMS);
  if (params->name && strnlen(params->name, 54) > 53) forbid("cuptiSubscribe_v2 with a subscriberName over 53 bytes");
  if (params->old_name && params->old_size < 64) forbid("cuptiSubscribe_v2 with oldSubscriberName under 64 bytes");
  // A subscriber of 13.0 and 13.1 goes on with the V1 activity calls: there are no others.
  int result = subscribe("cuptiSubscribe_v2", MOCK_V2_PREVIEW ? 2 : 1, subscriber, callback, user);
  if (result == BUSY && params->old_name) strncpy(params->old_name, "another client", params->old_size);
  return result;
}
#endif

// valid_subscriber says whether it is the one that there is; needs the lock.
static bool valid_subscriber(const void *subscriber) { return mock.generation && subscriber == mock.subscriber; }

API int cuptiUnsubscribe(void *subscriber) {
  check_process("cuptiUnsubscribe");
  check_alive("cuptiUnsubscribe");
  if (mock_inside) forbid("cuptiUnsubscribe inside a callback");
  if (mock.any_kind) run_pass(PASS_SETTLE, "cuptiUnsubscribe");
  pthread_mutex_lock(&mock.lock);
  bool ours = valid_subscriber(subscriber);
  if (ours) {
    mock.generation = 0;
    mock.callback = NULL;
    memset(mock.enabled, 0, sizeof mock.enabled);
    let_in();
  }
  pthread_mutex_unlock(&mock.lock);
  return ours ? OK : INVALID_PARAMETER;
}

// cuptiGetCallbackName names the calls whose numbers a client may look for.
API int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name) {
  check_process("cuptiGetCallbackName");
  check_alive("cuptiGetCallbackName");
  if (domain != DOMAIN_DRIVER || cbid >= CBIDS || !name) return INVALID_PARAMETER;
  *name = cbid == BEGIN_TO_GRAPH ? "cuStreamBeginCaptureToGraph" : "cuUnknown";
  return OK;
}

API int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t cbid) {
  check_process("cuptiEnableCallback");
  check_alive("cuptiEnableCallback");
  if (domain < 1 || domain >= DOMAINS || cbid >= CBIDS) return INVALID_PARAMETER;
  pthread_mutex_lock(&mock.lock);
  bool ours = valid_subscriber(subscriber);
  if (ours) mock.enabled[domain][cbid] = enable != 0;
  pthread_mutex_unlock(&mock.lock);
  return ours ? OK : INVALID_PARAMETER;
}

API int cuptiEnableDomain(uint32_t enable, void *subscriber, int domain) {
  check_process("cuptiEnableDomain");
  if (domain < 1 || domain >= DOMAINS) return INVALID_PARAMETER;
  if (enable && (domain == DOMAIN_DRIVER || domain == DOMAIN_RUNTIME))
    forbid("cuptiEnableDomain of every %s call: enable the launches one by one", domain == DOMAIN_DRIVER ? "driver" : "runtime");
  pthread_mutex_lock(&mock.lock);
  bool ours = valid_subscriber(subscriber);
  if (ours) memset(mock.enabled[domain], enable != 0, sizeof mock.enabled[domain]);
  pthread_mutex_unlock(&mock.lock);
  return ours ? OK : INVALID_PARAMETER;
}

API int cuptiEnableAllDomains(uint32_t enable, void *subscriber) {
  if (enable) forbid("cuptiEnableAllDomains: enable the launches one by one");
  for (int domain = 1; domain < DOMAINS; domain++) {
    int result = cuptiEnableDomain(0, subscriber, domain);
    if (result) return result;
  }
  return OK;
}

API int cuptiFinalize(void) {
  check_process("cuptiFinalize");
  check_outside("cuptiFinalize");
  pthread_mutex_lock(&mock.lock);
  bool flushed = mock.flushed, other = others();
  pthread_mutex_unlock(&mock.lock);
  check_alive("cuptiFinalize");
  if (mock.inside) forbid("cuptiFinalize with a thread in a callback");
  if (mock.replays_until > mock_now()) forbid("cuptiFinalize with a traced graph replay in flight: the GPU would write to memory that is gone");
  if (!flushed) forbid("cuptiFinalize without a flush before: launches failed after it on hardware");
  if (other) forbid("cuptiFinalize while another client uses CUPTI");
  if (mock.orphans) forbid("cuptiFinalize after graphs that were traced ran without a subscription: a GPU fault followed on an H200");
  mock.finalizing = true;
  return_spare();
  nanosleep(&(struct timespec){0, (long)mock.fault.finalize_ms * 1000000}, NULL);
  pthread_mutex_lock(&mock.lock);
  mock.finalizing = false;
  mock.attachment++;
  mock.stats.finalized++;
  mock.replays_until = mock.launches = 0;
  mock.generation = mock.registered = 0;
  mock.callback = NULL;
  mock.forced_early = mock.any_kind = false;
  mock.finalized = true;
  memset(mock.enabled, 0, sizeof mock.enabled);
  memset(mock.kinds, 0, sizeof mock.kinds);
  pthread_mutex_unlock(&mock.lock);
  return OK;
}

#if MOCK_V2_PREVIEW
API int cuptiIsTracingSessionRunning(uint8_t *running) {
  if (!running) return INVALID_PARAMETER;
  pthread_mutex_lock(&mock.lock);
  *running = mock.generation || others();
  pthread_mutex_unlock(&mock.lock);
  return OK;
}
#endif
