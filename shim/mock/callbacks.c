// Callbacks: what the client enabled, fired on the thread on which the driver would fire it.
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

void fire(int inside, int domain, uint32_t cbid, const void *data) {
  pthread_mutex_lock(&mock.lock);
  callback_fn call = mock.enabled[domain][cbid] ? mock.callback : NULL;
  void *user = mock.user;
  pthread_mutex_unlock(&mock.lock);
  if (!call) return;
  int outer = mock_inside;
  mock_inside = inside;
  call(user, domain, cbid, data);
  mock_inside = outer;
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

void launch_enter(mock_launch *launch) {
  launch->client_data = 0;
  prefetch_buffer(); // CUPTI asks for a first buffer on the launching thread
  fire_launch(launch, 0);
}

void launch_exit(mock_launch *launch) { fire_launch(launch, 1); }
