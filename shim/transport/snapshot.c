// The snapshot: the base as frames.
#include "transport/base.h"
#include "transport/wire.h"

#define FRAME_MAX (1u << 20) // bytes of one body, but for the manifest

struct snapshot {
  struct bytes *out;
  size_t head;   // where the open frame begins
  uint16_t kind; // of the open frame; 0: none is open
  bool failed;
};

static void end_frame(struct snapshot *s) {
  if (s->kind == 0) return;
  uint32_t length = (uint32_t)(s->out->used - s->head - sizeof(kw_frame));
  memcpy(s->out->data + s->head + offsetof(kw_frame, length), &length, sizeof length);
  s->kind = 0;
}

// item gives room in a frame of that kind. What lies behind a manifest, whose length is any, is not aligned: it is copied there.
static void *item(struct snapshot *s, uint16_t kind, size_t bytes) {
  if (s->kind != kind || s->out->used - s->head + bytes > FRAME_MAX) {
    end_frame(s);
    s->head = s->out->used;
    kw_frame f = {.kind = kind, .flags = kind == KW_BASE ? 0 : KW_PINNED};
    if (!bytes_put(s->out, &f, sizeof f)) goto failed;
    s->kind = kind;
  }
  void *at = bytes_add(s->out, bytes);
  if (at != NULL) return at;
failed:
  s->failed = true;
  return NULL;
}

static void copy(struct snapshot *s, uint16_t kind, const void *from, size_t bytes) {
  void *to = item(s, kind, bytes);
  if (to != NULL) memcpy(to, from, bytes);
}

// copy_text copies a head and the text behind it, with zeros up to a multiple of 8.
static void copy_text(struct snapshot *s, uint16_t kind, const void *head, size_t bytes, const void *text, uint32_t length) {
  uint8_t *to = item(s, kind, bytes + ((length + 7u) & ~7u));
  if (to == NULL) return;
  memcpy(to, head, bytes);
  if (length > 0) memcpy(to + bytes, text, length);
}

static void put_strings(struct snapshot *s, uint32_t count, const struct intern *strings) {
  for (uint32_t id = 1; id <= count; id++) {
    struct interned text = intern_text(strings, id);
    kw_string head = {.id = id, .length = text.length};
    copy_text(s, KW_STRINGS, &head, sizeof head, text.bytes, text.length);
  }
}

static void put_events(struct snapshot *s, const struct bytes *events) {
  for (size_t at = 0; at < events->used;) {
    const kw_event *e = (const void *)(events->data + at);
    copy(s, KW_EVENTS, e, e->length);
    at += e->length;
  }
}

// An opening is one open range of a thread, to be put in the order of their pushes.
struct opening {
  uint64_t time, order;
  uint32_t thread, domain, depth;
  const struct open *open;
};

static void put_push(struct snapshot *s, const struct opening *opening) {
  const struct open *o = opening->open;
  size_t bytes = sizeof(kw_push) + ((o->length + 7u) & ~7u);
  kw_push e = {.head = {.kind = KW_PUSH, .length = (uint16_t)bytes, .thread = opening->thread, .time = opening->time},
               .domain = opening->domain, .text = o->text, .length = o->length, .depth = opening->depth};
  copy_text(s, KW_EVENTS, &e, sizeof e, o->bytes, o->length);
  if (o->payload != NULL) copy(s, KW_EVENTS, o->payload, o->payload->head.length);
}

static void put_start(struct snapshot *s, const struct open *o) {
  size_t bytes = sizeof(kw_start) + ((o->length + 7u) & ~7u);
  kw_start e = {.head = {.kind = KW_START, .length = (uint16_t)bytes, .thread = o->thread, .time = o->time},
                .range = o->range, .domain = o->domain, .text = o->text, .length = o->length};
  copy_text(s, KW_EVENTS, &e, sizeof e, o->bytes, o->length);
  if (o->payload != NULL) copy(s, KW_EVENTS, o->payload, o->payload->head.length);
}

static int by_order(const void *a, const void *b) {
  const struct opening *x = a, *y = b;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return x->depth < y->depth ? -1 : x->depth > y->depth; // one that is not kept has the order of the one around it
}

// list_stack appends what is kept of a stack. If the innermost range is not, one without a text stands for it, so that the
// collector's stack is as deep.
static bool list_stack(struct bytes *list, uint32_t thread, const struct stack *s) {
  static const struct open nameless;
  struct opening o = {.thread = thread, .domain = s->domain};
  for (uint32_t i = 0; i < s->kept; i++) {
    o.open = &s->open[i];
    o.depth = o.open->depth;
    o.time = o.open->time;
    o.order = o.open->order;
    if (!bytes_put(list, &o, sizeof o)) return false;
  }
  if (o.depth == s->depth) return true;
  o.open = &nameless;
  o.depth = s->depth;
  return bytes_put(list, &o, sizeof o);
}

static void put_ranges(struct snapshot *s, const struct ranges *r) {
  struct bytes list = {0};
  for (uint32_t i = 0; r->threads != NULL && i < RANGES_THREADS * 2; i++) {
    const struct thread *t = &r->threads[i];
    for (uint32_t k = 0; k < t->count; k++) {
      if (!list_stack(&list, t->id, &t->stacks[k])) s->failed = true;
    }
  }
  struct opening *openings = (void *)list.data;
  size_t count = list.used / sizeof *openings;
  if (count > 1) qsort(openings, count, sizeof *openings, by_order);
  for (size_t i = 0; i < count; i++) put_push(s, &openings[i]);
  bytes_free(&list);
  for (uint32_t i = 0; i < r->starts; i++) put_start(s, &r->started[i]);
}

// put_label pushes or pops all texts of a label.
static void put_label(struct snapshot *s, struct interned label, uint64_t now, bool push) {
  for (uint32_t at = 0; at < label.length;) {
    kw_push e; // or a PAYLOAD, which is longer
    memcpy(&e, label.bytes + at, sizeof e);
    if (push) {
      uint8_t *to = item(s, KW_EVENTS, e.head.length);
      if (to == NULL) return;
      memcpy(to, label.bytes + at, e.head.length);
      memcpy(to + offsetof(kw_event, time), &now, sizeof now);
    } else if (e.head.kind == KW_PUSH) {
      kw_pop pop = {.head = {.kind = KW_POP, .length = sizeof pop, .thread = KW_THREAD_LABELS, .time = now}, .domain = e.domain};
      copy(s, KW_EVENTS, &pop, sizeof pop);
    }
    at += e.head.length;
  }
}

static void put_nodes(struct snapshot *s, const struct base *b, uint64_t now) {
  uint32_t label = 0; // neighbours mostly share one
  for (uint32_t i = 0; i < b->nodes.room; i++) {
    const struct graph *g = &b->nodes.slots[i];
    for (uint32_t k = 0; k < g->count; k++) {
      const struct node *n = &g->nodes[k];
      if (n->label != label) {
        put_label(s, intern_text(&b->labels, label), now, false);
        put_label(s, intern_text(&b->labels, n->label), now, true);
        label = n->label;
      }
      kw_node_created e = {.head = {.kind = KW_NODE_CREATED, .length = sizeof e, .thread = KW_THREAD_LABELS, .time = now},
                           .node = (uint64_t)g->id << 32 | n->index, .flags = n->flags, .type = n->type};
      copy(s, KW_EVENTS, &e, sizeof e);
    }
  }
  put_label(s, intern_text(&b->labels, label), now, false);
}

bool base_snapshot(const struct base *b, const struct intern *strings, uint64_t now, struct bytes *out) {
  struct snapshot s = {.out = out};
  if (b->manifest.used > 0) {
    end_frame(&s);
    copy(&s, KW_MANIFEST, b->manifest.data, b->manifest.used);
    end_frame(&s);
  }
  put_strings(&s, b->strings, strings);
  put_events(&s, &b->domains);
  put_events(&s, &b->schemas);
  put_events(&s, &b->told);
  put_ranges(&s, &b->ranges);
  put_nodes(&s, b, now);
  end_frame(&s);
  kw_base end = {.number = b->number, .correlation = b->correlation, .launches = b->launched};
  copy(&s, KW_BASE, &end, sizeof end);
  end_frame(&s);
  return !s.failed;
}

bool base_strings(const struct base *b, const struct intern *strings, struct bytes *out) {
  size_t head = out->used;
  if (bytes_add(out, sizeof(kw_frame)) == NULL) return false;
  for (uint32_t id = 1; id <= b->strings; id++) {
    struct interned text = intern_text(strings, id);
    size_t bytes = sizeof(kw_string) + ((text.length + 7u) & ~7u);
    if (out->used - head + bytes > KW_MAX_BODY) break; // more than 16 MiB of names: the last ones stay unknown
    uint8_t *to = bytes_add(out, bytes);
    if (to == NULL) return false;
    kw_string given = {.id = id, .length = text.length};
    memcpy(to, &given, sizeof given);
    memcpy(to + sizeof given, text.bytes, text.length);
  }
  kw_frame f = {.length = (uint32_t)(out->used - head - sizeof f), .kind = KW_STRINGS, .number = b->number};
  memcpy(out->data + head, &f, sizeof f);
  return true;
}
