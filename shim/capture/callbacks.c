// Callbacks run on the engine's threads, inside its calls: they post an event and return.
#include "capture/callbacks.h"

#include "capture/cupti.h"
#include "capture/drain.h"
#include "capture/edge.h"
#include "capture/events.h"
#include "capture/inside.h"
#include "capture/meter.h"
#include "capture/pool.h"
#include "capture/records.h"
#include "capture/replayers.h"
#include "capture/scrap.h"
#include "capture/wake.h"
#include "host/clock.h"

#include <string.h>

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

// What tells of captures, in the mode windows. Those into a graph are younger, and their numbers are asked for.
static struct capture {
  const char *name;
  bool begins;
  uint32_t id; // 0: this CUPTI has none
} captures[] = {
    {"cuStreamBeginCapture", true, 495},
    {"cuStreamBeginCapture_ptsz", true, 496},
    {"cuStreamEndCapture", false, 497},
    {"cuStreamEndCapture_ptsz", false, 498},
    {"cuStreamBeginCapture_v2", true, 539},
    {"cuStreamBeginCapture_v2_ptsz", true, 540},
    {"cuStreamBeginCaptureToGraph", true, 0},
    {"cuStreamBeginCaptureToGraph_ptsz", true, 0},
};
#define CAPTURES (sizeof captures / sizeof *captures)
enum { NAMED_FROM = 640, NAMED_TO = 1024 }; // where those without a number may lie

static atomic_bool watching; // the mode windows: what edges must know is noted
static atomic_bool counting; // threads inside: CUPTI may have to be finalized

void callbacks_count(bool on) { atomic_store(&counting, on); }

static void find_captures(void) {
  for (uint32_t id = NAMED_FROM; id < NAMED_TO && cupti.GetCallbackName != NULL; id++) {
    const char *name = NULL;
    if (cupti.GetCallbackName(CUPTI_DRIVER_API, id, &name) != CUPTI_OK || name == NULL) continue;
    for (size_t i = 0; i < CAPTURES; i++) {
      if (captures[i].id == 0 && strcmp(captures[i].name, name) == 0) captures[i].id = id;
    }
  }
}

static int watch(void) {
  if (!atomic_load(&watching)) find_captures();
  atomic_store(&watching, true);
  callbacks_count(true);
  int result = cupti.EnableCallback(1, cupti.subscriber, CUPTI_RESOURCE, CUPTI_CONTEXT_DESTROY_STARTING);
  for (size_t i = 0; i < CAPTURES && result == CUPTI_OK; i++) {
    if (captures[i].id != 0) result = cupti.EnableCallback(1, cupti.subscriber, CUPTI_DRIVER_API, captures[i].id);
  }
  return result;
}

int callbacks_enable(bool windows) {
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (cupti.version < wanted[i].since) continue;
    int result = cupti.EnableCallback(1, cupti.subscriber, wanted[i].domain, wanted[i].id);
    // Without a launch or a context nothing can be told; without the others a little less.
    if (result != CUPTI_OK && (wanted[i].id == LAUNCH_KERNEL || wanted[i].id == CUPTI_CONTEXT_CREATED)) return result;
  }
  return windows ? watch() : CUPTI_OK;
}

static bool is_launch(uint32_t id) {
  return id == LAUNCH_KERNEL || id == LAUNCH_KERNEL_EX || id == LAUNCH_GRAPH || id == LAUNCH_KERNEL_PTSZ ||
         id == LAUNCH_KERNEL_EX_PTSZ || id == LAUNCH_GRAPH_PTSZ || id == LAUNCH_COOPERATIVE || id == LAUNCH_COOPERATIVE_PTSZ;
}

static void launch(uint32_t id, const cupti_api_data *data, bool watched) {
  bool replay = id == LAUNCH_GRAPH || id == LAUNCH_GRAPH_PTSZ;
  if (data->site == 0) {
    self.launching = true;
    self.captured = false;
    self.posted = events_traced();
    if (watched) drain_note(data->context);
    if (watched && replay) replayers_note(), edge_launched();
    if (self.posted) events_launch(KW_LAUNCH, data->correlation, replay ? KW_LAUNCH_GRAPH : 0);
    return;
  }
  if (self.captured && self.posted) events_launch(KW_CAPTURED, data->correlation, 0);
  if (self.captured && watched) replayers_captured();
  self.launching = self.captured = false;
}

// capture tells of one that begins, counted from the entry of the call on, or ends. What comes through our wrapper is
// counted there.
static void capture(uint32_t id, const cupti_api_data *data) {
  for (size_t i = 0; i < CAPTURES; i++) {
    if (captures[i].id != id) continue;
    bool failed = data->site != 0 && data->result != NULL && *(const int *)data->result != 0;
    if (data->site == 0) replayers_note();
    if (self.wrapped) return;
    if (data->site == 0 ? captures[i].begins : !captures[i].begins || failed) replayers_capture(data->site == 0);
    return;
  }
}

static bool node_id(void *node, uint64_t *id) {
  return node != NULL && cupti.GetGraphNodeId != NULL && cupti.GetGraphNodeId(node, id) == CUPTI_OK;
}

static void graph(uint32_t id, const cupti_graph_data *data, bool watched) {
  uint64_t node, original;
  uint32_t graph_id;
  switch (id) {
  case CUPTI_NODE_CREATED:
    if (watched) replayers_note();
    if (self.launching) self.captured = true; // the driver forbids asking the stream from here
    if (!node_id(data->node, &node)) return;
    events_node_created(node, self.launching ? KW_NODE_IN_LAUNCH : 0, data->node_type);
    return;
  case CUPTI_NODE_CLONED:
  case CUPTI_NODE_UPDATED:
    if (watched) replayers_note(), replayers_made();
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

static void resource(const struct callbacks_told *told, uint32_t id, const cupti_resource_data *data, bool watched) {
  switch (id) {
  case CUPTI_CU_INIT_FINISHED:
    told->initialised(); // data points nowhere here
    return;
  case CUPTI_CONTEXT_CREATED:
    told->initialised(); // if it was not settled, it is now
    if (told->context != NULL) told->context();
    return;
  case CUPTI_CONTEXT_DESTROY_STARTING:
    if (data != NULL) drain_destroyed(data->context);
    return;
  case CUPTI_MODULE_UNLOAD_STARTING:
    records_unloading();
    return;
  default:
    if (!events_on() || data == NULL || data->descriptor == NULL) return;
    if (watched || events_traced()) graph(id, data->descriptor, watched);
  }
}

// is_frequent leaves out what comes a few times in a process's life and may take milliseconds.
static bool is_frequent(int domain, uint32_t id) {
  return domain == CUPTI_DRIVER_API || (domain == CUPTI_RESOURCE && id >= CUPTI_GRAPH_DESTROY_STARTING);
}

void callbacks_api(void *user, int domain, uint32_t id, const void *data) {
  const struct callbacks_told *told = user;
  bool watched = atomic_load_explicit(&watching, memory_order_relaxed);
  bool counted = atomic_load_explicit(&counting, memory_order_relaxed);
  if (counted) inside_enter();
  uint64_t began = is_frequent(domain, id) ? meter_begin() : 0;
  if (domain == CUPTI_DRIVER_API) {
    if (events_on() && data != NULL && is_launch(id)) launch(id, data, watched);
    else if (events_on() && data != NULL) capture(id, data);
  } else if (domain == CUPTI_RESOURCE) {
    resource(told, id, data, watched);
  } else if (domain == CUPTI_STATE && data != NULL) {
    const cupti_state_data *state = data;
    told->refused(id == CUPTI_FATAL_ERROR, state->result, state->message);
  }
  meter_end(&meter_callbacks, began);
  if (counted) inside_leave();
}

// The request callback may run inside a launch: a pop from a stack, and if few are left one signal, so that the flusher
// has CUPTI give back what is complete.
void callbacks_request(uint8_t **buffer, size_t *size, size_t *records) {
  bool counted = atomic_load_explicit(&counting, memory_order_relaxed);
  if (counted) inside_enter();
  uint64_t bytes = 0, began = clock_tick();
  *records = 0; // as many as fit
  *buffer = pool_lend(&bytes);
  if (*buffer == NULL && cupti.version < CUPTI_NULL_BUFFER) *buffer = scrap_lend(&bytes); // it crashes on NULL
  *size = bytes;
  if (pool_low()) wake_hurry();
  meter_add(&meter_buffers, began);
  if (counted) inside_leave();
}

void callbacks_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  bool counted = atomic_load_explicit(&counting, memory_order_relaxed);
  if (counted) inside_enter();
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
  if (counted) inside_leave();
}

void callbacks_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info) {
  (void)info;
  callbacks_request(buffer, size, records);
}

void callbacks_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info) {
  (void)info;
  callbacks_complete(NULL, 0, buffer, size, valid);
}
