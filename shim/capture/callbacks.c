// Callbacks run on the engine's threads, inside its calls: they post an event and return.
#include "capture/callbacks.h"

#include "capture/cupti.h"
#include "capture/events.h"
#include "capture/meter.h"
#include "capture/pool.h"
#include "capture/records.h"
#include "capture/scrap.h"
#include "capture/wake.h"
#include "host/clock.h"

// Driver calls that launch: kernels, and graphs (_ptsz: with the per-thread default stream). The runtime's launches end
// in these.
enum {
  LAUNCH_KERNEL = 307,
  LAUNCH_KERNEL_PTSZ = 442,
  LAUNCH_COOPERATIVE = 477,
  LAUNCH_COOPERATIVE_PTSZ = 478,
  LAUNCH_GRAPH = 514,
  LAUNCH_GRAPH_PTSZ = 515,
  LAUNCH_KERNEL_EX = 652,
  LAUNCH_KERNEL_EX_PTSZ = 653,
};

static const struct {
  int domain;
  uint32_t id, since; // since: CUPTI's version
} wanted[] = {
    {CUPTI_STATE, CUPTI_FATAL_ERROR, CUPTI_HWTRACE},
    {CUPTI_STATE, CUPTI_ERROR, CUPTI_HWTRACE},
    {CUPTI_STATE, CUPTI_WARNING, CUPTI_HWTRACE},
    {CUPTI_RESOURCE, CUPTI_CONTEXT_CREATED, 0},
    {CUPTI_RESOURCE, CUPTI_CU_INIT_FINISHED, 0},
    {CUPTI_RESOURCE, CUPTI_MODULE_UNLOAD_STARTING, 0},
    {CUPTI_RESOURCE, CUPTI_GRAPH_DESTROY_STARTING, 0},
    {CUPTI_RESOURCE, CUPTI_NODE_CREATED, 0},
    {CUPTI_RESOURCE, CUPTI_NODE_DESTROY_STARTING, 0},
    {CUPTI_RESOURCE, CUPTI_EXEC_DESTROY_STARTING, 0},
    {CUPTI_RESOURCE, CUPTI_NODE_CLONED, 0},
    {CUPTI_RESOURCE, CUPTI_NODE_UPDATED, CUPTI_13_0},
    {CUPTI_DRIVER_API, LAUNCH_KERNEL, 0},
    {CUPTI_DRIVER_API, LAUNCH_KERNEL_PTSZ, 0},
    {CUPTI_DRIVER_API, LAUNCH_COOPERATIVE, 0},
    {CUPTI_DRIVER_API, LAUNCH_COOPERATIVE_PTSZ, 0},
    {CUPTI_DRIVER_API, LAUNCH_GRAPH, 0},
    {CUPTI_DRIVER_API, LAUNCH_GRAPH_PTSZ, 0},
    {CUPTI_DRIVER_API, LAUNCH_KERNEL_EX, 0},
    {CUPTI_DRIVER_API, LAUNCH_KERNEL_EX_PTSZ, 0},
};

int callbacks_enable(void) {
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (cupti.version < wanted[i].since) continue;
    int result = cupti.EnableCallback(1, cupti.subscriber, wanted[i].domain, wanted[i].id);
    // Without a launch or a context nothing can be told; without the others a little less.
    if (result != CUPTI_OK && (wanted[i].id == LAUNCH_KERNEL || wanted[i].id == CUPTI_CONTEXT_CREATED)) return result;
  }
  return CUPTI_OK;
}

static void launch(uint32_t id, const cupti_api_data *data) {
  if (data->site == 0) {
    self.launching = true;
    self.captured = false;
    events_launch(KW_LAUNCH, data->correlation, id == LAUNCH_GRAPH || id == LAUNCH_GRAPH_PTSZ ? KW_LAUNCH_GRAPH : 0);
    return;
  }
  if (self.captured) events_launch(KW_CAPTURED, data->correlation, 0);
  self.launching = self.captured = false;
}

static bool node_id(void *node, uint64_t *id) {
  return node != NULL && cupti.GetGraphNodeId != NULL && cupti.GetGraphNodeId(node, id) == CUPTI_OK;
}

static void graph(uint32_t id, const cupti_graph_data *data) {
  uint64_t node, original;
  uint32_t graph_id;
  switch (id) {
  case CUPTI_NODE_CREATED:
    if (self.launching) self.captured = true; // the driver forbids asking the stream from here
    if (!node_id(data->node, &node)) return;
    events_node_created(node, self.launching ? KW_NODE_IN_LAUNCH : 0, data->node_type);
    return;
  case CUPTI_NODE_CLONED:
  case CUPTI_NODE_UPDATED:
    if (node_id(data->node, &node) && node_id(data->original_node, &original)) events_node_cloned(original, node);
    return;
  case CUPTI_NODE_DESTROY_STARTING:
    if (node_id(data->node, &node)) events_node_forgotten(node);
    return;
  case CUPTI_GRAPH_DESTROY_STARTING:
    if (cupti.GetGraphId == NULL || data->graph == NULL) return;
    if (cupti.GetGraphId(data->graph, &graph_id) == CUPTI_OK) events_graph_forgotten(graph_id);
    return;
  case CUPTI_EXEC_DESTROY_STARTING:
    if (cupti.GetGraphExecId == NULL || data->exec == NULL) return;
    if (cupti.GetGraphExecId(data->exec, &graph_id) == CUPTI_OK) events_graph_forgotten(graph_id);
    return;
  default:
    return;
  }
}

static void resource(const struct callbacks_told *told, uint32_t id, const cupti_resource_data *data) {
  switch (id) {
  case CUPTI_CU_INIT_FINISHED:
    told->initialised(); // data points nowhere here
    return;
  case CUPTI_CONTEXT_CREATED:
    told->initialised(); // if it was not settled, it is now
    if (told->context != NULL) told->context();
    return;
  case CUPTI_MODULE_UNLOAD_STARTING:
    records_unloading();
    return;
  default:
    if (events_on() && events_traced() && data != NULL && data->descriptor != NULL) graph(id, data->descriptor);
  }
}

// is_frequent leaves out what comes a few times in a process's life and may take milliseconds.
static bool is_frequent(int domain, uint32_t id) {
  return domain == CUPTI_DRIVER_API || (domain == CUPTI_RESOURCE && id >= CUPTI_GRAPH_DESTROY_STARTING);
}

void callbacks_api(void *user, int domain, uint32_t id, const void *data) {
  const struct callbacks_told *told = user;
  uint64_t began = is_frequent(domain, id) ? meter_begin() : 0;
  if (domain == CUPTI_DRIVER_API) {
    if (events_on() && events_traced() && data != NULL) launch(id, data);
  } else if (domain == CUPTI_RESOURCE) {
    resource(told, id, data);
  } else if (domain == CUPTI_STATE && data != NULL) {
    const cupti_state_data *state = data;
    told->refused(id == CUPTI_FATAL_ERROR, state->result, state->message);
  }
  meter_end(&meter_callbacks, began);
}

// The request callback may run inside a launch: a pop from a stack, and if few are left one signal, so that the flusher
// has CUPTI give back what is complete.
void callbacks_request(uint8_t **buffer, size_t *size, size_t *records) {
  uint64_t bytes = 0, began = clock_tick();
  *records = 0; // as many as fit
  *buffer = pool_lend(&bytes);
  if (*buffer == NULL && cupti.version < CUPTI_NULL_BUFFER) *buffer = scrap_lend(&bytes); // it crashes on NULL
  *size = bytes;
  if (pool_low()) wake_hurry();
  meter_add(&meter_buffers, began);
}

void callbacks_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  uint64_t began = clock_tick();
  bool alone;
  if (scrap_owns(buffer, &alone)) {
    records_scrapped(buffer, valid, alone);
    scrap_return(buffer);
  } else {
    pool_complete(buffer, valid);
    if (pool_low()) wake_sender();
  }
  meter_add(&meter_buffers, began);
}

void callbacks_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info) {
  (void)info;
  callbacks_request(buffer, size, records);
}

void callbacks_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info) {
  (void)info;
  callbacks_complete(NULL, 0, buffer, size, valid);
}
