// Nodes lie in one ascending array a graph: captures create them in order, and a graph is forgotten whole.
#include "transport/nodes.h"

#include "transport/bytes.h"

static uint32_t home(const struct nodes *n, uint32_t graph) { return (uint32_t)hash_mix(graph) & (n->room - 1); }

static struct graph *find(const struct nodes *n, uint32_t graph) {
  if (n->room == 0) return NULL;
  for (uint32_t i = home(n, graph);; i = (i + 1) & (n->room - 1)) {
    struct graph *g = &n->slots[i];
    if (g->nodes == NULL) return NULL;
    if (g->id == graph) return g;
  }
}

static bool grow(struct nodes *n) {
  struct nodes bigger = {.room = n->room == 0 ? 64 : n->room * 2, .graphs = n->graphs, .count = n->count};
  bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
  if (bigger.slots == NULL) return false;
  for (uint32_t i = 0; i < n->room; i++) {
    if (n->slots[i].nodes == NULL) continue;
    uint32_t to = home(&bigger, n->slots[i].id);
    while (bigger.slots[to].nodes != NULL) to = (to + 1) & (bigger.room - 1);
    bigger.slots[to] = n->slots[i];
  }
  free(n->slots);
  *n = bigger;
  return true;
}

static struct graph *make(struct nodes *n, uint32_t graph) {
  struct graph *g = find(n, graph);
  if (g != NULL) return g;
  if (n->graphs * 2 >= n->room && !grow(n)) return NULL;
  uint32_t i = home(n, graph);
  while (n->slots[i].nodes != NULL) i = (i + 1) & (n->room - 1);
  g = &n->slots[i];
  struct node *nodes = malloc(16 * sizeof *nodes);
  if (nodes == NULL) return NULL;
  *g = (struct graph){.id = graph, .room = 16, .nodes = nodes};
  n->graphs++;
  return g;
}

// place gives the first position whose index is not less.
static uint32_t place(const struct graph *g, uint32_t index) {
  if (g->count == 0 || g->nodes[g->count - 1].index < index) return g->count;
  uint32_t low = 0, high = g->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (g->nodes[middle].index < index) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool nodes_put(struct nodes *n, uint64_t id, struct node node) {
  node.index = (uint32_t)id;
  struct graph *g = find(n, (uint32_t)(id >> 32));
  if (g == NULL && (n->count == NODES_MAX || (g = make(n, (uint32_t)(id >> 32))) == NULL)) return false;
  uint32_t at = place(g, node.index);
  if (at < g->count && g->nodes[at].index == node.index) {
    g->nodes[at] = node;
    return true;
  }
  if (n->count == NODES_MAX) return false;
  if (g->count == g->room) {
    struct node *nodes = realloc(g->nodes, 2 * g->room * sizeof *nodes);
    if (nodes == NULL) return false;
    g->nodes = nodes;
    g->room *= 2;
  }
  memmove(&g->nodes[at + 1], &g->nodes[at], (g->count - at) * sizeof *g->nodes);
  g->nodes[at] = node;
  g->count++;
  n->count++;
  return true;
}

const struct node *nodes_get(const struct nodes *n, uint64_t id) {
  const struct graph *g = find(n, (uint32_t)(id >> 32));
  if (g == NULL) return NULL;
  uint32_t at = place(g, (uint32_t)id);
  return at < g->count && g->nodes[at].index == (uint32_t)id ? &g->nodes[at] : NULL;
}

// vacate frees a slot and moves up those that had to go past it.
static void vacate(struct nodes *n, struct graph *g) {
  free(g->nodes);
  uint32_t hole = (uint32_t)(g - n->slots), mask = n->room - 1;
  for (uint32_t i = (hole + 1) & mask; n->slots[i].nodes != NULL; i = (i + 1) & mask) {
    if (((i - home(n, n->slots[i].id)) & mask) < ((i - hole) & mask)) continue;
    n->slots[hole] = n->slots[i];
    hole = i;
  }
  n->slots[hole] = (struct graph){0};
  n->graphs--;
}

void nodes_forget(struct nodes *n, uint64_t id) {
  struct graph *g = find(n, (uint32_t)(id >> 32));
  if (g == NULL) return;
  uint32_t at = place(g, (uint32_t)id);
  if (at == g->count || g->nodes[at].index != (uint32_t)id) return;
  g->count--;
  n->count--;
  memmove(&g->nodes[at], &g->nodes[at + 1], (g->count - at) * sizeof *g->nodes);
  if (g->count == 0) vacate(n, g);
}

void nodes_forget_graph(struct nodes *n, uint32_t graph) {
  struct graph *g = find(n, graph);
  if (g == NULL) return;
  n->count -= g->count;
  vacate(n, g);
}

void nodes_free(struct nodes *n) {
  for (uint32_t i = 0; i < n->room; i++) free(n->slots[i].nodes);
  free(n->slots);
  *n = (struct nodes){0};
}
