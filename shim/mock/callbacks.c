// Callbacks: what the client enabled, fired on the thread on which the driver would fire it.
#include <time.h>
#include "state.h"

typedef struct {
  uint32_t site;
  uint32_t pad0;
  const char *function;
  const void *params;
  void *result;
  const char *symbol;
  void *context;
  uint32_t context_uid;
  uint32_t pad1;
  uint64_t *client_data;
  uint32_t correlation;
  uint32_t pad2;
} callback_data;
_Static_assert(sizeof(callback_data) == 72, "CUpti_CallbackData");

static void linger(void) {
  if (mock.fault.linger_us) nanosleep(&(struct timespec){0, (long)mock.fault.linger_us * 1000}, NULL);
}

void fire(int inside, int domain, uint32_t cbid, const void *data) {
  pthread_mutex_lock(&mock.lock);
  callback_fn call = mock.enabled[domain][cbid] ? mock.callback : NULL;
  void *user = mock.user;
  if (call) mock.inside++; // with the lock: whoever unsubscribed sees it, or is seen
  pthread_mutex_unlock(&mock.lock);
  if (!call) return;
  int outer = mock_inside;
  mock_inside = inside;
  linger();
  call(user, domain, cbid, data);
  linger();
  mock_inside = outer;
  mock.inside--;
}

void fire_state(uint32_t cbid, uint32_t result, const char *message) {
  fire(IN_STATE, DOMAIN_STATE, cbid, &(state_data){.result = result, .message = message});
}

// Launches.

static const char *function_name(uint32_t cbid) {
  switch (cbid) {
  case 307: return "cuLaunchKernel";
  case 442: return "cuLaunchKernel_ptsz";
  case 477: return "cuLaunchCooperativeKernel";
  case 497: return "cuStreamEndCapture";
  case 539: return "cuStreamBeginCapture_v2";
  case 514: return "cuGraphLaunch";
  case 515: return "cuGraphLaunch_ptsz";
  case 652: return "cuLaunchKernelEx";
  case 653: return "cuLaunchKernelEx_ptsz";
  default: return "cuUnknown";
  }
}

static void fire_launch(mock_launch *launch, uint32_t site) {
  static const uint64_t params[32];
  int result = 0;
  callback_data data = {.site = site,
                        .function = function_name(launch->cbid),
                        .params = params,
                        .result = &result,
                        .context = first_context(),
                        .context_uid = first_context_id(),
                        .client_data = &launch->client_data,
                        .correlation = launch->correlation};
  fire(IN_API, DOMAIN_DRIVER, launch->cbid < CBIDS ? launch->cbid : 0, &data);
}

static bool is_replay(const mock_launch *launch) { return launch->cbid == 514 || launch->cbid == 515; }

uint32_t tracing(void) {
  pthread_mutex_lock(&mock.lock);
  bool on = mock.kinds[KIND_KERNEL] && mock.registered;
  pthread_mutex_unlock(&mock.lock);
  return on ? mock.attachment + 1 : 0;
}

void replays(uint64_t end, uint32_t attachment) {
  if (attachment != mock.attachment + 1) return;
  if (mock.finalizing) forbid("a graph with instrumented nodes is launched while cuptiFinalize runs");
  uint64_t until = mock.replays_until;
  while (until < end && !atomic_compare_exchange_weak(&mock.replays_until, &until, end)) {}
}

void launch_enter(mock_launch *launch) {
  launch->client_data = 0;
  if (is_replay(launch) && !mock.generation && mock.launches) mock.orphans = true; // instrumented, and nobody is subscribed
  if (mock.any_kind) mock.launches++;
  if (is_replay(launch) && mock.finalizing && mock.launches) forbid("a graph is launched while cuptiFinalize runs");
  prefetch_buffer(); // CUPTI asks for a first buffer on the launching thread
  fire_launch(launch, 0);
}

void launch_exit(mock_launch *launch) { fire_launch(launch, 1); }
