// How a player drives the mock: what the GPU and the driver would do to CUPTI. Clients never see this.
#ifndef KERNHES_MOCK_H
#define KERNHES_MOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const uint8_t *bytes; // as recorded; stays valid while the mock lives
  const char *name;     // of a kernel; NULL where the recorded pointer has no text
  uint32_t size;        // bytes recorded
} mock_record;

// Records that are offered together, and how they are moved.
typedef struct {
  const mock_record *records;
  size_t count;
  int64_t time_shift;         // ns, added to start, end, completed, queued and submitted
  uint32_t correlation_shift; // see mock_correlation
  bool at_once;               // ready now, whatever the clock says
  bool instrumented;          // launched while their kinds were enabled: recorded whatever happens to those later, and copied
} mock_offer;

// One launch call, from enter to exit; kept by the caller in between.
typedef struct {
  uint32_t cbid, correlation;
  uint64_t client_data; // what CUpti_CallbackData.correlationData points at
} mock_launch;

typedef struct {
  uint64_t dropped, dropped_silent, zero, backward, too_long, future, withheld, duplicated, truncated, unknown;
  uint64_t warm;        // dropped in silence, since too many had come before; also in dropped_silent
  uint64_t finalized;   // times that CUPTI was finalized
  uint64_t untraced;    // records of kinds that were not enabled: CUPTI would not have made them
  uint64_t unfinished;  // running at a forced flush: delivered with end 0
  uint64_t no_buffer;   // dropped because the client had no buffer; also in dropped
  uint64_t guests;      // times that another client subscribed
  uint64_t buffers, delivered_kernels, delivered_copies;
} mock_stats;

typedef struct {
  // Reads the faults from the environment.
  // Without loss a client that has no buffer is asked again later; otherwise CUPTI drops, counted.
  void (*start)(bool lossless);
  void (*driver_initialised)(void); // cuInit returns: CU_INIT_FINISHED
  void (*context_created)(uint32_t context, uint32_t device);
  void (*context_destroyed)(uint32_t context); // is about to be
  void *(*context_handle)(uint32_t context);   // the handle by which callbacks name it
  void (*launch_enter)(mock_launch *);         // of any call of the driver that the client may hear
  void (*launch_exit)(mock_launch *);
  void (*node_created)(uint64_t node, uint32_t type);
  void (*node_cloned)(uint64_t original, uint64_t clone);
  void (*graph_instantiated)(uint32_t graph, uint32_t exec);
  void (*graph_destroyed)(uint32_t graph);
  uint32_t (*tracing)(void);     // 0: kernels are not traced; else which attachment it is
  void (*replays)(uint64_t end, uint32_t attachment); // a graph with nodes that CUPTI instrumented in that one runs until end (unix ns)
  void (*offer)(const mock_offer *);
  void (*deliver)(void);         // hands over what is ready, as a flush of CUPTI's own
  void (*dropped)(uint64_t);     // CUPTI says that it dropped so many
  bool (*starved)(void);         // lossless, and the client had no buffer when last asked
  uint64_t (*pending)(void);     // records offered and not yet written, and 1 if a written one is not yet delivered
  void (*release)(void);         // what a fault withheld becomes ready; when nothing else is pending
  void (*exiting)(void);         // from here on a forced flush is right
  void (*stats)(mock_stats *);
} mock_control;

// Exported by every mock libcupti under the name "kernhes_mock".
#define MOCK_CONTROL_SYMBOL "kernhes_mock"

// mock_correlation moves a recorded correlation id. 0 (none) stays 0, and no id becomes 0: ids go round from 2^32-1 to 1.
static inline uint32_t mock_correlation(uint32_t id, uint32_t shift) {
  return id ? (uint32_t)(((uint64_t)id - 1 + shift) % UINT32_MAX) + 1 : 0;
}

#endif
