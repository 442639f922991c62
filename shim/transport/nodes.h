// Graph nodes that have not been forgotten, by graph.
#ifndef KERNHES_NODES_H
#define KERNHES_NODES_H

#include <stdbool.h>
#include <stdint.h>

#define NODES_MAX (1u << 20)

struct node {
  uint32_t index; // low half of the node's id; the high half is its graph's
  uint32_t label; // id of a set of texts; 0: none
  uint32_t flags;
  uint32_t type;
};

struct graph {
  uint32_t id;
  uint32_t count, room;
  struct node *nodes; // ascending by index; NULL: this slot is free
};

struct nodes {
  struct graph *slots; // open addressing by id
  uint32_t room;       // a power of two, or 0
  uint32_t graphs, count;
};

// nodes_put adds a node or replaces it; false if it does not fit.
bool nodes_put(struct nodes *n, uint64_t id, struct node node);
const struct node *nodes_get(const struct nodes *n, uint64_t id);
void nodes_forget(struct nodes *n, uint64_t id);
void nodes_forget_graph(struct nodes *n, uint32_t graph);
void nodes_free(struct nodes *n);

#endif
