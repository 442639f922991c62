// Folding frames into the base.
#include "transport/base.h"

#include "transport/pairs.h"
#include "transport/wire.h"

// put_payload appends a payload as one of a range on thread 0.
static bool put_payload(struct bytes *to, const kw_payload *e, uint32_t site) {
  kw_payload *copy = bytes_add(to, e->head.length);
  if (copy == NULL) return false;
  memcpy(copy, e, e->head.length);
  copy->head.thread = KW_THREAD_LABELS;
  copy->head.time = 0;
  copy->range = 0;
  copy->depth = 1;
  copy->site = site;
  return true;
}

// may_tell reports whether another payload of a schema is to be kept, and counts it.
static bool may_tell(struct base *b, const kw_payload *e) {
  if (b->tellers == NULL && (b->tellers = calloc(BASE_TELLERS, sizeof *b->tellers)) == NULL) return false;
  struct teller *t = b->tellers, *end = t + b->teller_count;
  while (t < end && (t->schema != e->schema || t->domain != e->domain)) t++;
  if (t == end) {
    if (b->teller_count == BASE_TELLERS) return false;
    b->teller_count++;
    *t = (struct teller){.schema = e->schema, .domain = e->domain};
  }
  if (t->told == BASE_TOLD || b->told.used >= BASE_TOLD_BYTES) return false;
  t->told++;
  return true;
}

// tell keeps what came with the pop of a range, with its text: of what was so told once, later frames say nothing.
static void tell(struct base *b, const kw_payload *e) {
  const struct open *o = ranges_popping(&b->ranges, e);
  if (o == NULL || !may_tell(b, e)) return;
  size_t bytes = sizeof(kw_push) + ((o->length + 7u) & ~7u), whole = b->told.used;
  kw_push *push = bytes_add(&b->told, bytes);
  if (push == NULL) return;
  push->head = (kw_event){.kind = KW_PUSH, .length = (uint16_t)bytes, .thread = KW_THREAD_LABELS};
  push->domain = e->domain;
  push->text = o->text;
  push->length = o->length;
  push->depth = 1;
  if (o->length > 0) memcpy(push + 1, o->bytes, o->length);
  kw_pop pop = {.head = {.kind = KW_POP, .length = sizeof pop, .thread = KW_THREAD_LABELS}, .domain = e->domain};
  if (!put_payload(&b->told, e, KW_POP) || !bytes_put(&b->told, &pop, sizeof pop)) b->told.used = whole;
}

static void attached(struct base *b, const kw_payload *e) {
  if (e->site == KW_POP) tell(b, e);
  else if (!ranges_attach(&b->ranges, e)) b->dropped++;
}

// label_of gives the id of what labels a node that is made on this thread now: of each domain the innermost range, in the order
// in which they were pushed. The call is the one that was pushed last.
static uint32_t label_of(struct base *b, uint32_t thread) {
  const struct thread *t = ranges_of(&b->ranges, thread);
  if (t == NULL) return 0;
  b->label.used = 0;
  uint32_t domain = 0;
  for (const struct open *o = ranges_next(t, 0, &domain); o != NULL; o = ranges_next(t, o->order, &domain)) {
    size_t bytes = sizeof(kw_push) + ((o->length + 7u) & ~7u);
    kw_push *e = bytes_add(&b->label, bytes);
    if (e == NULL) return 0;
    e->head = (kw_event){.kind = KW_PUSH, .length = (uint16_t)bytes, .thread = KW_THREAD_LABELS};
    e->domain = domain;
    e->text = o->text;
    e->length = o->length;
    e->depth = 1;
    if (o->length > 0) memcpy(e + 1, o->bytes, o->length);
    if (o->payload != NULL && !put_payload(&b->label, o->payload, KW_PUSH)) return 0;
  }
  if (b->label.used == 0) return 0;
  uint32_t id = intern_id(&b->labels, b->label.data, (uint32_t)b->label.used);
  if (id == 0) b->dropped++;
  return id;
}

static void created(struct base *b, const kw_node_created *e) {
  struct node node = {.label = label_of(b, e->head.thread), .flags = e->flags, .type = e->type};
  if (!nodes_put(&b->nodes, e->node, node)) b->dropped++;
}

static void cloned(struct base *b, const kw_node_cloned *e) {
  const struct node *original = nodes_get(&b->nodes, e->original);
  const struct node *clone = nodes_get(&b->nodes, e->clone);
  // Of an original that nobody saw made the clone can take nothing: it loses the label it had, as that may be stale.
  struct node node = original != NULL ? *original : clone != NULL ? *clone : (struct node){0};
  if (original == NULL) node.label = 0;
  if (!nodes_put(&b->nodes, e->clone, node)) b->dropped++;
}

static void fold_event(struct base *b, const kw_event *e) {
  const void *at = e;
  switch (e->kind) {
  case KW_PUSH:
    if (!ranges_push(&b->ranges, at)) b->dropped++;
    break;
  case KW_POP:
    ranges_pop(&b->ranges, at);
    break;
  case KW_START:
    if (!ranges_start(&b->ranges, at)) b->dropped++;
    break;
  case KW_END:
    ranges_end(&b->ranges, ((const kw_end *)at)->range);
    break;
  case KW_NODE_CREATED:
    created(b, at);
    break;
  case KW_NODE_CLONED:
    cloned(b, at);
    break;
  case KW_GRAPH_FORGOTTEN:
    nodes_forget_graph(&b->nodes, ((const kw_graph_forgotten *)at)->graph);
    break;
  case KW_NODE_FORGOTTEN:
    nodes_forget(&b->nodes, ((const kw_node_forgotten *)at)->node);
    break;
  case KW_DOMAIN:
    if (!bytes_put(&b->domains, e, e->length)) b->dropped++;
    break;
  case KW_SCHEMA:
    if (!bytes_put(&b->schemas, e, e->length)) b->dropped++;
    break;
  case KW_PAYLOAD:
    attached(b, at);
    break;
  default:
    break;
  }
}

bool base_fold(struct base *b, uint64_t number, uint16_t kind, const uint8_t *body, uint32_t length, uint32_t *correlation) {
  bool launched = false;
  b->number = number;
  switch (kind) {
  case KW_STRINGS:
    for (uint32_t at = 0; at < length;) {
      const kw_string *s = (const void *)(body + at);
      b->strings = s->id;
      at += (uint32_t)sizeof *s + ((s->length + 7u) & ~7u);
    }
    break;
  case KW_EVENTS:
    for (uint32_t at = 0; at < length;) {
      const kw_event *e = (const void *)(body + at);
      if (e->kind == KW_LAUNCH) {
        *correlation = ((const kw_launch *)(const void *)e)->correlation;
        launched = true;
      } else {
        fold_event(b, e);
      }
      at += e->length;
    }
    break;
  case KW_INFO:
    pairs_merge(&b->pairs, body, length);
    break;
  case KW_MANIFEST:
    b->manifest.used = 0;
    if (!bytes_put(&b->manifest, body, length)) b->dropped++;
    break;
  default:
    break;
  }
  return launched;
}

void base_free(struct base *b) {
  bytes_free(&b->pairs);
  bytes_free(&b->manifest);
  bytes_free(&b->domains);
  bytes_free(&b->schemas);
  bytes_free(&b->told);
  free(b->tellers);
  bytes_free(&b->label);
  nodes_free(&b->nodes);
  ranges_free(&b->ranges);
  intern_free(&b->labels);
}
