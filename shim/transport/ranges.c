// Open ranges, as the events that were folded left them.
#include "transport/ranges.h"

#include "transport/bytes.h"

#define SLOTS (RANGES_THREADS * 2u)

static struct thread *slot(const struct ranges *r, uint32_t id) {
  for (uint64_t i = hash_mix(id);; i++) {
    struct thread *t = &r->threads[i % SLOTS];
    if (t->id == id || t->id == 0) return t;
  }
}

static bool is_idle(const struct thread *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    if (t->stacks[i].depth > 0) return false;
  }
  return true;
}

static void free_thread(struct thread *t) {
  for (uint32_t i = 0; i < t->count; i++) free(t->stacks[i].open);
  free(t->stacks);
  *t = (struct thread){0};
}

// sweep throws out threads without an open range: threads come and go, and nobody says when.
static bool sweep(struct ranges *r) {
  struct thread *old = r->threads, *threads = calloc(SLOTS, sizeof *threads);
  if (threads == NULL) return false;
  r->threads = threads;
  r->used = 0;
  for (uint32_t i = 0; i < SLOTS; i++) {
    if (old[i].id == 0) continue;
    if (is_idle(&old[i])) {
      free_thread(&old[i]);
      continue;
    }
    *slot(r, old[i].id) = old[i];
    r->used++;
  }
  free(old);
  return r->used < RANGES_THREADS;
}

static struct thread *thread_of(struct ranges *r, uint32_t id) {
  if (r->threads == NULL && (r->threads = calloc(SLOTS, sizeof *r->threads)) == NULL) return NULL;
  struct thread *t = slot(r, id);
  if (t->id == id) return t;
  if (r->used == RANGES_THREADS && !sweep(r)) return NULL;
  t = slot(r, id);
  t->id = id;
  r->used++;
  return t;
}

static struct stack *stack_of(struct thread *t, uint32_t domain, bool make) {
  for (uint32_t i = 0; i < t->count; i++) {
    if (t->stacks[i].domain == domain) return &t->stacks[i];
  }
  if (!make || t->count == RANGES_DOMAINS) return NULL;
  struct stack *stacks = realloc(t->stacks, (t->count + 1) * sizeof *stacks);
  if (stacks == NULL) return NULL;
  t->stacks = stacks;
  stacks[t->count] = (struct stack){.domain = domain};
  return &stacks[t->count++];
}

static void drop(struct ranges *r, struct open *o) {
  if (o->bytes != NULL) r->bytes -= o->length;
  if (o->payload != NULL) r->bytes -= o->payload->head.length;
  free(o->bytes);
  free(o->payload);
  o->bytes = NULL;
  o->payload = NULL;
}

static void cut_to(struct ranges *r, struct stack *s, uint32_t depth) {
  for (; s->kept > 0 && s->open[s->kept - 1].depth > depth; s->kept--, r->open--) drop(r, &s->open[s->kept - 1]);
  if (s->depth > depth) s->depth = depth;
}

static bool keep_text(struct ranges *r, struct open *o, uint32_t text, const void *bytes, uint32_t length) {
  o->text = text;
  if (text != 0 || length == 0) return true;
  if (r->bytes + length > RANGES_BYTES || (o->bytes = malloc(length)) == NULL) return false;
  memcpy(o->bytes, bytes, length);
  o->length = length;
  r->bytes += length;
  return true;
}

// let_go drops the outermost of the inner ones.
static void let_go(struct ranges *r, struct stack *s) {
  struct open *at = &s->open[RANGES_OUTER];
  drop(r, at);
  s->kept--;
  r->open--;
  memmove(at, at + 1, (s->kept - RANGES_OUTER) * sizeof *at);
}

static bool has_room(struct ranges *r, struct stack *s) {
  if (r->open == RANGES_OPEN) return false;
  if (s->kept < s->room) return true;
  uint32_t room = s->room == 0 ? 4 : s->room * 2;
  struct open *open = realloc(s->open, room * sizeof *open);
  if (open == NULL) return false;
  s->open = open;
  s->room = room;
  return true;
}

bool ranges_push(struct ranges *r, const kw_push *e) {
  struct thread *t = thread_of(r, e->head.thread);
  struct stack *s = t == NULL ? NULL : stack_of(t, e->domain, true);
  if (s == NULL) return false;
  if (e->depth != KW_DEPTH_UNKNOWN && e->depth > 0) {
    cut_to(r, s, e->depth - 1);
    s->depth = e->depth - 1;
  }
  s->depth++;
  bool made_room = s->kept == RANGES_OUTER + RANGES_INNER;
  if (made_room) let_go(r, s);
  if (!has_room(r, s)) return false;
  struct open *o = &s->open[s->kept++];
  r->open++;
  *o = (struct open){.time = e->head.time, .order = ++r->pushes, .depth = s->depth};
  return keep_text(r, o, e->text, e + 1, e->length) && !made_room;
}

void ranges_pop(struct ranges *r, const kw_pop *e) {
  struct thread *t = r->threads == NULL ? NULL : slot(r, e->head.thread);
  struct stack *s = t == NULL || t->id == 0 ? NULL : stack_of(t, e->domain, false);
  if (s == NULL || s->depth == 0) return;
  uint32_t depth = s->depth - 1;
  if (e->depth != KW_DEPTH_UNKNOWN && e->depth < depth) depth = e->depth;
  cut_to(r, s, depth);
}

bool ranges_start(struct ranges *r, const kw_start *e) {
  if (r->started == NULL && (r->started = malloc(RANGES_STARTED * sizeof *r->started)) == NULL) return false;
  if (r->starts == RANGES_STARTED) return false;
  struct open *o = &r->started[r->starts++];
  *o = (struct open){.time = e->head.time, .range = e->range, .thread = e->head.thread, .domain = e->domain};
  return keep_text(r, o, e->text, e + 1, e->length);
}

void ranges_end(struct ranges *r, uint64_t range) {
  for (uint32_t i = r->starts; i-- > 0;) { // the latest are the likeliest
    if (r->started[i].range != range) continue;
    drop(r, &r->started[i]);
    r->starts--;
    memmove(&r->started[i], &r->started[i + 1], (r->starts - i) * sizeof *r->started);
    return;
  }
}

// innermost_for finds the innermost range of a payload's thread and domain; NULL where its push was lost or not kept.
static struct open *innermost_for(const struct ranges *r, const kw_payload *e) {
  struct thread *t = r->threads == NULL ? NULL : slot(r, e->head.thread);
  struct stack *s = t == NULL || t->id == 0 ? NULL : stack_of(t, e->domain, false);
  if (s == NULL || s->kept == 0 || s->open[s->kept - 1].depth != s->depth) return NULL;
  return e->depth == KW_DEPTH_UNKNOWN || e->depth == s->depth ? &s->open[s->kept - 1] : NULL;
}

const struct open *ranges_popping(const struct ranges *r, const kw_payload *e) { return innermost_for(r, e); }

static struct open *started_for(const struct ranges *r, const kw_payload *e) {
  for (uint32_t i = r->starts; i-- > 0;) {
    if (r->started[i].range == e->range) return &r->started[i];
  }
  return NULL;
}

bool ranges_attach(struct ranges *r, const kw_payload *e) {
  struct open *o = e->site == KW_PUSH ? innermost_for(r, e) : e->site == KW_START ? started_for(r, e) : NULL;
  if (o == NULL || o->payload != NULL) return true;
  if (r->bytes + e->head.length > RANGES_BYTES || (o->payload = malloc(e->head.length)) == NULL) return false;
  memcpy(o->payload, e, e->head.length);
  r->bytes += e->head.length;
  return true;
}

const struct thread *ranges_of(const struct ranges *r, uint32_t thread) {
  if (r->threads == NULL) return NULL;
  const struct thread *t = slot(r, thread);
  return t->id == 0 ? NULL : t;
}

const struct open *ranges_innermost(const struct stack *s) {
  const struct open *last = s->kept == 0 ? NULL : &s->open[s->kept - 1];
  return last != NULL && last->depth == s->depth ? last : NULL;
}

const struct open *ranges_next(const struct thread *t, uint64_t order, uint32_t *domain) {
  const struct open *next = NULL;
  for (uint32_t i = 0; i < t->count; i++) {
    const struct open *o = ranges_innermost(&t->stacks[i]);
    if (o == NULL || o->order <= order || (next != NULL && next->order < o->order)) continue;
    next = o;
    *domain = t->stacks[i].domain;
  }
  return next;
}

void ranges_free(struct ranges *r) {
  for (uint32_t i = 0; r->threads != NULL && i < SLOTS; i++) {
    for (uint32_t s = 0; s < r->threads[i].count; s++) cut_to(r, &r->threads[i].stacks[s], 0);
    free_thread(&r->threads[i]);
  }
  for (uint32_t i = 0; i < r->starts; i++) drop(r, &r->started[i]);
  free(r->threads);
  free(r->started);
  *r = (struct ranges){0};
}
