// Filling frames.
#include "capture/encode.h"

#include "capture/events.h"

#define FRAME_FILL (256u << 10) // bytes of a body from which a frame is closed

static void close_one(struct encoder *e, uint16_t kind, struct filling *f) {
  if (f->body.used > 0) queue_add(e->queue, kind, f->body.data, (uint32_t)f->body.used, f->stake);
  f->body.used = 0;
  f->stake = (struct stake){0};
}

void encode_close(struct encoder *e) {
  if (e->strung.used > 0) {
    queue_add(e->queue, KW_STRINGS, e->strung.data, (uint32_t)e->strung.used, (struct stake){0});
    e->strung.used = 0;
  }
  close_one(e, KW_EVENTS, &e->events);
  close_one(e, KW_KERNELS, &e->kernels);
  close_one(e, KW_COPIES, &e->copies);
}

void encode_frame(struct encoder *e, uint16_t kind, const void *body, uint32_t length) {
  encode_close(e);
  struct stake stake = {0};
  if (kind == KW_LOST) {
    const kw_lost *l = body;
    stake = (struct stake){.reason = l->reason, .what = l->what, .is = {l->count, l->from, l->to}};
  }
  queue_add(e->queue, kind, body, length, stake);
}

// item gives room in a frame. from, to: between them lies what it stands for, if it gets lost. Events that come after
// records stay after them: they may forget the graph that those belong to.
static void *item(struct encoder *e, struct filling *f, uint32_t what, size_t bytes, uint64_t from, uint64_t to) {
  bool after = f == &e->events && e->kernels.body.used + e->copies.body.used > 0;
  if (after || f->body.used + bytes > FRAME_FILL) encode_close(e);
  void *to_fill = bytes_add(&f->body, bytes);
  if (to_fill == NULL) {
    losses_add(e->queue->losses, KW_LOST_SHIM_BUFFER, what, (struct loss){1, from, to});
    return NULL;
  }
  struct loss *is = &f->stake.is;
  if (is->count == 0 || from < is->from) is->from = from;
  if (to > is->to) is->to = to;
  is->count++;
  f->stake.reason = KW_LOST_SHIM_BUFFER;
  f->stake.what = what;
  return to_fill;
}

static uint32_t give_id(struct encoder *e, const void *bytes, uint32_t length) {
  uint32_t before = e->strings.count, id = intern_id(&e->strings, bytes, length);
  if (id <= before) return id;
  // Ids must go out ascending and before their use: this frame precedes the one being filled.
  kw_string *s = bytes_add(&e->strung, sizeof *s + ((length + 7u) & ~7u));
  if (s == NULL) return 0;
  *s = (kw_string){.id = id, .length = length};
  memcpy(s + 1, bytes, length);
  if (e->strung.used >= FRAME_FILL) encode_close(e);
  return id;
}

uint32_t encode_name(struct encoder *e, const char *name, uint32_t length) {
  return give_id(e, name, length < KW_MAX_TEXT ? length : KW_MAX_TEXT);
}

// repeated_id gives an id to a text that comes for the second time, as far as a small table of hashes knows.
static uint32_t repeated_id(struct encoder *e, const void *bytes, uint32_t length) {
  if (length == 0) return 0;
  uint32_t id = intern_find(&e->strings, bytes, length);
  if (id != 0) return id;
  if (e->seen == NULL && (e->seen = calloc(ENCODE_SEEN, sizeof *e->seen)) == NULL) return 0;
  uint64_t hash = hash_bytes(bytes, length);
  uint64_t *seen = &e->seen[hash % ENCODE_SEEN];
  if (*seen == hash) return give_id(e, bytes, length);
  *seen = hash;
  return 0;
}

static void announce(struct encoder *e, uint32_t domain, const kw_event *event) {
  if (domain == 0 || domain >= ENCODE_DOMAINS || e->said[domain]) return;
  e->said[domain] = 1;
  struct interned name = e->names.domain(domain);
  uint32_t bytes = (uint32_t)sizeof(kw_domain) + ((name.length + 7u) & ~7u);
  kw_domain *d = item(e, &e->events, KW_OF_EVENTS, bytes, event->time, event->time);
  if (d == NULL) return;
  d->head = (kw_event){.kind = KW_DOMAIN, .length = (uint16_t)bytes, .thread = event->thread, .time = event->time};
  d->domain = domain;
  d->length = name.length;
  memcpy(d + 1, name.bytes, name.length);
}

static void lay_out(struct encoder *e, uint32_t index, const kw_event *event);

// lay_out_named announces the schemas that the entries of one name: before it, so that their sizes are known.
static void lay_out_named(struct encoder *e, const kw_schema *s, const kw_event *event) {
  if (s->type == KW_SCHEMA_ENUM) return;
  for (uint32_t at = 0; at < s->length;) {
    const kw_schema_entry *n = (const void *)((const uint8_t *)(s + 1) + at);
    if (n->type >= NVTX_SCHEMA_STATIC) lay_out(e, schemas_find(s->domain, n->type), event);
    at += (uint32_t)sizeof *n + ((n->length + 7u) & ~7u);
  }
}

// lay_out announces a schema, and others that have its id.
static void lay_out(struct encoder *e, uint32_t index, const kw_event *event) {
  for (; index != 0; index = schemas_next(index)) {
    if (e->laid[index]) continue;
    e->laid[index] = 1; // before those that it names: they may name it
    const kw_schema *s = schemas_event(index);
    lay_out_named(e, s, event);
    uint32_t bytes = (uint32_t)sizeof *s + s->length;
    kw_schema *to = item(e, &e->events, KW_OF_EVENTS, bytes, event->time, event->time);
    if (to == NULL) return;
    memcpy(to, s, bytes);
    to->head = (kw_event){.kind = KW_SCHEMA, .length = (uint16_t)bytes, .thread = event->thread, .time = event->time};
  }
}

// attached writes a PAYLOAD behind its schema.
static void attached(struct encoder *e, const kw_payload *event) {
  announce(e, event->domain, &event->head);
  lay_out(e, event->zero, &event->head);
  kw_payload *to = item(e, &e->events, KW_OF_EVENTS, event->head.length, event->head.time, event->head.time);
  if (to == NULL) return;
  memcpy(to, event, event->head.length);
  to->zero = 0;
}

// ranged writes a PUSH or START: a head of that many bytes, whose text and length fields lie at `fields`.
static void ranged(struct encoder *e, const kw_event *event, size_t head, size_t fields, uint32_t domain) {
  const uint8_t *from = (const void *)event;
  uint32_t text, length;
  memcpy(&text, from + fields, sizeof text);
  memcpy(&length, from + fields + sizeof text, sizeof length);
  struct interned is = {.bytes = from + head, .length = length};
  if (length == EVENTS_REGISTERED) is = e->names.registered(text);
  announce(e, domain, event);
  uint32_t id = repeated_id(e, is.bytes, is.length);
  if (id != 0) is.length = 0;
  size_t bytes = head + ((is.length + 7u) & ~7u);
  uint8_t *to = item(e, &e->events, KW_OF_EVENTS, bytes, event->time, event->time);
  if (to == NULL) return;
  memcpy(to, from, head);
  ((kw_event *)(void *)to)->length = (uint16_t)bytes;
  memcpy(to + fields, &id, sizeof id);
  memcpy(to + fields + sizeof id, &is.length, sizeof is.length);
  if (is.length > 0) memcpy(to + head, is.bytes, is.length);
}

// callbacks_of says how many callbacks stand behind an event, so that launches need not count them.
static uint64_t callbacks_of(uint16_t kind) {
  switch (kind) {
  case KW_LAUNCH:
    return 2; // entry and exit
  case KW_NODE_CREATED:
  case KW_NODE_CLONED:
  case KW_GRAPH_FORGOTTEN:
  case KW_NODE_FORGOTTEN:
    return 1;
  default:
    return 0;
  }
}

void encode_event(struct encoder *e, const kw_event *event) {
  e->events_seen++;
  e->callbacks_seen += callbacks_of(event->kind);
  e->ranges_seen += event->kind <= KW_END;
  if (event->kind == KW_PUSH) {
    ranged(e, event, sizeof(kw_push), offsetof(kw_push, text), ((const kw_push *)(const void *)event)->domain);
  } else if (event->kind == KW_START) {
    ranged(e, event, sizeof(kw_start), offsetof(kw_start, text), ((const kw_start *)(const void *)event)->domain);
  } else if (event->kind == KW_PAYLOAD) {
    attached(e, (const void *)event);
  } else {
    void *to = item(e, &e->events, KW_OF_EVENTS, event->length, event->time, event->time);
    if (to != NULL) memcpy(to, event, event->length);
  }
}

void encode_kernel(struct encoder *e, const kw_kernel *record) {
  void *to = item(e, &e->kernels, KW_OF_KERNELS, sizeof *record, record->start, record->end);
  if (to != NULL) memcpy(to, record, sizeof *record);
}

void encode_copy(struct encoder *e, const kw_copy *record) {
  void *to = item(e, &e->copies, KW_OF_COPIES, sizeof *record, record->start, record->end);
  if (to != NULL) memcpy(to, record, sizeof *record);
}

uint64_t encode_pending(const struct encoder *e) { return e->strung.used + e->events.body.used + e->kernels.body.used + e->copies.body.used; }

void encode_free(struct encoder *e) {
  intern_free(&e->strings);
  bytes_free(&e->strung);
  bytes_free(&e->events.body);
  bytes_free(&e->kernels.body);
  bytes_free(&e->copies.body);
  free(e->seen);
}
