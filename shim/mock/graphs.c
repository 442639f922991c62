// Contexts and graphs: handles as the driver's, which only CUPTI can resolve to ids.
#include <stdlib.h>
#include "state.h"

enum { MAGIC = 0x6b656e68 };
typedef enum { A_CONTEXT, A_GRAPH, A_NODE, AN_EXEC } handle_type;
typedef struct handle {
  uint32_t magic;
  handle_type type;
  uint64_t id;
  uint32_t device; // of a context
  struct handle *next;
} handle;

typedef struct {
  void *context;
  void *handle;
  const void *descriptor;
} resource_data;
_Static_assert(sizeof(resource_data) == 24, "CUpti_ResourceData");

typedef struct {
  void *graph, *original_graph, *node, *original_node;
  uint32_t node_type;
  uint32_t pad;
  void *dependency;
  void *exec;
} graph_data;
_Static_assert(sizeof(graph_data) == 56, "CUpti_GraphData");

enum { BUCKETS = 1 << 14 };
static handle *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(handle *) first;

// find_handle gives the one handle of that id, made at its first use; *made says whether that is now.
static handle *find_handle(handle_type type, uint64_t id, bool *made) {
  pthread_mutex_lock(&lock);
  handle **bucket = &buckets[mix(id * 4 + type) % BUCKETS], *h = *bucket;
  while (h && (h->type != type || h->id != id)) h = h->next;
  if (made) *made = !h;
  if (!h) {
    if (!(h = malloc(sizeof *h))) abort();
    *h = (handle){.magic = MAGIC, .type = type, .id = id, .next = *bucket};
    *bucket = h;
  }
  pthread_mutex_unlock(&lock);
  return h;
}

static void fire_resource(uint32_t cbid, void *context, const void *descriptor) {
  fire(IN_RESOURCE, DOMAIN_RESOURCE, cbid, &(resource_data){.context = context, .descriptor = descriptor});
}

void *first_context(void) { return first; }
uint32_t first_context_id(void) { handle *c = first; return c ? (uint32_t)c->id : 0; }

void driver_initialised(void) {
  mock.initialised = true;
  bool hes_stands = hes_initialised();
  fire_resource(5, NULL, NULL); // the descriptor is NULL: seen on hardware
  if (!hes_stands) hes_refused_late();
}

void context_created(uint32_t context, uint32_t device) {
  handle *h = find_handle(A_CONTEXT, context, NULL), *none = NULL;
  h->device = device;
  atomic_compare_exchange_strong(&first, &none, h);
  mock.contexts++;
  fire_resource(1, h, NULL);
  hes_context();
}

void *context_handle(uint32_t context) { return find_handle(A_CONTEXT, context, NULL); }

void context_destroyed(uint32_t context) { fire_resource(2, find_handle(A_CONTEXT, context, NULL), NULL); }

static handle *graph_of(uint64_t node) {
  bool made;
  handle *graph = find_handle(A_GRAPH, node >> 32, &made);
  if (made) fire_resource(9, first, &(graph_data){.graph = graph});
  return graph;
}

void node_created(uint64_t node, uint32_t type) {
  handle *graph = graph_of(node);
  graph_data data = {.graph = graph, .node = find_handle(A_NODE, node, NULL), .node_type = type};
  fire_resource(13, first, &data);
}

void node_cloned(uint64_t original, uint64_t clone) {
  graph_data data = {.graph = graph_of(clone), .original_graph = graph_of(original),
                     .node = find_handle(A_NODE, clone, NULL), .original_node = find_handle(A_NODE, original, NULL)};
  fire_resource(20, first, &data);
}

void graph_instantiated(uint32_t graph, uint32_t exec) {
  graph_data data = {.graph = find_handle(A_GRAPH, graph, NULL), .exec = find_handle(AN_EXEC, exec, NULL)};
  fire_resource(18, first, &data);
}

void graph_destroyed(uint32_t graph) {
  fire_resource(10, first, &(graph_data){.graph = find_handle(A_GRAPH, graph, NULL)});
}

static int resolve(const void *pointer, handle_type type, uint64_t *id) {
  const handle *h = pointer;
  if (!h || !id || h->magic != MAGIC || h->type != type) return INVALID_PARAMETER;
  *id = h->id;
  return OK;
}

static int resolve32(const void *pointer, handle_type type, uint32_t *id) {
  uint64_t wide;
  int result = resolve(pointer, type, id ? &wide : NULL);
  if (result == OK) *id = (uint32_t)wide;
  return result;
}

API int cuptiGetGraphNodeId(void *node, uint64_t *id) { return resolve(node, A_NODE, id); }
API int cuptiGetGraphId(void *graph, uint32_t *id) { return resolve32(graph, A_GRAPH, id); }
API int cuptiGetGraphExecId(void *exec, uint32_t *id) { return resolve32(exec, AN_EXEC, id); }
API int cuptiGetContextId(void *context, uint32_t *id) { return resolve32(context, A_CONTEXT, id); }

API int cuptiGetDeviceId(void *context, uint32_t *device) {
  uint64_t id;
  int result = resolve(context, A_CONTEXT, device ? &id : NULL);
  if (result == OK) *device = ((handle *)context)->device;
  return result;
}
