// Frames, acknowledged one by one: at every point the snapshot and the frames that are left make the same state as
// all frames from the first.
#include "capture/encode.h"
#include "capture/events.h"
#include "check.h"

#include <string.h>

#define THREADS 4u // 0 is the thread of labels
#define DOMAINS 3u
#define NODES 400u

// A model is what a collector makes of frames, as plainly as can be.
struct model {
  char strings[200][40];
  char domains[DOMAINS][40];
  char open[THREADS][DOMAINS][70][40];
  char with[THREADS][DOMAINS][70][20]; // payload of each
  uint32_t order[THREADS][DOMAINS][70]; // of each, its push among all
  uint32_t depth[THREADS][DOMAINS];
  uint32_t pushes;
  struct {
    uint64_t id;
    uint32_t flags;
    char label[200];
  } nodes[NODES];
  uint32_t node_count;
  struct {
    uint64_t id;
    char text[40];
    char with[20];
  } started[300];
  char schemas[8][20]; // by id
  char told[400];      // payloads that came with pops
  uint32_t starts;
  uint32_t correlation;
  uint64_t base;
};

static void text_of(const struct model *m, uint32_t id, const void *bytes, uint32_t length, char *to) {
  if (id != 0) {
    CHECK(id < 200 && m->strings[id][0] != 0); // a string before its use
    strcpy(to, m->strings[id]);
    return;
  }
  CHECK(length < 40);
  memcpy(to, bytes, length);
  to[length] = 0;
}

static int node_at(const struct model *m, uint64_t id) {
  for (uint32_t i = 0; i < m->node_count; i++) {
    if (m->nodes[i].id == id) return (int)i;
  }
  return -1;
}

static int node_made(struct model *m, uint64_t id) {
  int at = node_at(m, id);
  if (at >= 0) return at;
  CHECK(m->node_count < NODES);
  memset(&m->nodes[m->node_count], 0, sizeof m->nodes[0]);
  m->nodes[m->node_count].id = id;
  return (int)m->node_count++;
}

static void forget(struct model *m, uint64_t id, bool graph) {
  for (uint32_t i = 0; i < m->node_count;) {
    if (graph ? m->nodes[i].id >> 32 == id : m->nodes[i].id == id) m->nodes[i] = m->nodes[--m->node_count];
    else i++;
  }
}

// payload notes a payload where it belongs: the schema must have come before.
static void payload(struct model *m, const kw_payload *p) {
  char text[20];
  CHECK(m->schemas[p->schema][0] != 0 && p->length <= 4 && p->zero == 0);
  sprintf(text, "%llu=%.*s", (unsigned long long)p->schema, (int)p->length, (const char *)(p + 1));
  uint32_t depth = m->depth[p->head.thread][p->domain];
  if (p->site == KW_START) {
    for (uint32_t i = 0; i < m->starts; i++) {
      if (m->started[i].id == p->range && m->started[i].with[0] == 0) strcpy(m->started[i].with, text);
    }
    return;
  }
  if (p->depth != KW_DEPTH_UNKNOWN) CHECK_EQUAL(p->depth, depth);
  if (depth == 0) return;
  char *with = m->with[p->head.thread][p->domain][depth - 1];
  if (p->site == KW_PUSH && with[0] == 0) strcpy(with, text);
  // Of each schema the first are told for ever, with the text of their range.
  if (p->site != KW_POP) return;
  sprintf(text + strlen(text), "@%.3s ", m->open[p->head.thread][p->domain][depth - 1]);
  CHECK(strlen(m->told) + strlen(text) < sizeof m->told);
  strcat(m->told, text);
}

// label writes the innermost range of each domain, in the order in which they were pushed: the call is the last.
static void label(const struct model *m, uint32_t thread, char *to) {
  *to = 0;
  for (uint32_t last = 0, d;;) {
    d = DOMAINS;
    for (uint32_t i = 0; i < DOMAINS; i++) {
      uint32_t depth = m->depth[thread][i];
      if (depth == 0 || m->order[thread][i][depth - 1] <= last) continue;
      if (d == DOMAINS || m->order[thread][i][depth - 1] < m->order[thread][d][m->depth[thread][d] - 1]) d = i;
    }
    if (d == DOMAINS) return;
    uint32_t inner = m->depth[thread][d] - 1;
    to += sprintf(to, "%u:%s[%s] ", d, m->open[thread][d][inner], m->with[thread][d][inner]);
    last = m->order[thread][d][inner];
  }
}

static void event(struct model *m, const kw_event *e) {
  const void *at = e;
  switch (e->kind) {
  case KW_SCHEMA: {
    const kw_schema *s = at;
    sprintf(m->schemas[s->schema], "%u.%u.%u", s->domain, s->size, s->length);
    break;
  }
  case KW_PAYLOAD:
    payload(m, at);
    break;
  case KW_PUSH: {
    const kw_push *p = at;
    uint32_t *depth = &m->depth[e->thread][p->domain];
    m->with[e->thread][p->domain][*depth][0] = 0;
    m->order[e->thread][p->domain][*depth] = ++m->pushes;
    text_of(m, p->text, p + 1, p->length, m->open[e->thread][p->domain][(*depth)++]);
    if (p->depth != KW_DEPTH_UNKNOWN) CHECK_EQUAL(p->depth, *depth);
    break;
  }
  case KW_POP: {
    const kw_pop *p = at;
    if (m->depth[e->thread][p->domain] > 0) m->depth[e->thread][p->domain]--;
    break;
  }
  case KW_START: {
    const kw_start *p = at;
    m->started[m->starts].id = p->range;
    m->started[m->starts].with[0] = 0;
    text_of(m, p->text, p + 1, p->length, m->started[m->starts++].text);
    break;
  }
  case KW_END:
    for (uint32_t i = 0; i < m->starts; i++) {
      if (m->started[i].id == ((const kw_end *)at)->range) m->started[i] = m->started[--m->starts];
    }
    break;
  case KW_LAUNCH:
    m->correlation = ((const kw_launch *)at)->correlation;
    break;
  case KW_NODE_CREATED: {
    const kw_node_created *c = at;
    int n = node_made(m, c->node);
    m->nodes[n].flags = c->flags;
    label(m, e->thread, m->nodes[n].label);
    break;
  }
  case KW_NODE_CLONED: {
    const kw_node_cloned *c = at;
    int from = node_at(m, c->original), to = node_made(m, c->clone);
    if (from >= 0) m->nodes[to].flags = m->nodes[from].flags;
    memcpy(m->nodes[to].label, from >= 0 ? m->nodes[from].label : "", from >= 0 ? sizeof m->nodes[to].label : 1);
    break;
  }
  case KW_GRAPH_FORGOTTEN:
    forget(m, ((const kw_graph_forgotten *)at)->graph, true);
    break;
  case KW_NODE_FORGOTTEN:
    forget(m, ((const kw_node_forgotten *)at)->node, false);
    break;
  case KW_DOMAIN: {
    const kw_domain *d = at;
    text_of(m, 0, d + 1, d->length, m->domains[d->domain]);
    break;
  }
  default:
    CHECK(false);
  }
}

static void frame(struct model *m, const uint8_t *bytes) {
  kw_frame f;
  memcpy(&f, bytes, sizeof f);
  const uint8_t *body = bytes + sizeof f;
  for (uint32_t at = 0; at < f.length;) {
    if (f.kind == KW_STRINGS) {
      const kw_string *s = (const void *)(body + at);
      text_of(m, 0, s + 1, s->length, m->strings[s->id]);
      at += (uint32_t)sizeof *s + ((s->length + 7u) & ~7u);
    } else if (f.kind == KW_EVENTS) {
      const kw_event *e = (const void *)(body + at);
      CHECK(e->length >= sizeof *e && e->length % 8 == 0 && at + e->length <= f.length);
      event(m, e);
      at += e->length;
    } else {
      if (f.kind == KW_BASE) {
        const kw_base *b = (const void *)body;
        m->base = b->number;
        if (b->launches) m->correlation = b->correlation;
      }
      return;
    }
  }
}

// same_order wants the ranges of two domains of a thread to have been pushed in the same order.
static void same_order(const struct model *a, const struct model *b, uint32_t t, uint32_t one, uint32_t other) {
  for (uint32_t i = 0; i < a->depth[t][one]; i++) {
    for (uint32_t k = 0; k < a->depth[t][other]; k++) {
      CHECK_EQUAL(a->order[t][one][i] < a->order[t][other][k], b->order[t][one][i] < b->order[t][other][k]);
    }
  }
}

static void same(const struct model *a, const struct model *b) {
  for (uint32_t t = 1; t < THREADS; t++) {
    for (uint32_t d = 0; d < DOMAINS; d++) {
      CHECK_EQUAL(a->depth[t][d], b->depth[t][d]);
      for (uint32_t i = 0; i < a->depth[t][d]; i++) {
        CHECK(strcmp(a->open[t][d][i], b->open[t][d][i]) == 0);
        CHECK(strcmp(a->with[t][d][i], b->with[t][d][i]) == 0);
      }
      for (uint32_t other = 0; other < d; other++) same_order(a, b, t, d, other);
    }
  }
  for (uint32_t d = 0; d < DOMAINS; d++) CHECK(strcmp(a->domains[d], b->domains[d]) == 0);
  CHECK_EQUAL(a->node_count, b->node_count);
  for (uint32_t i = 0; i < a->node_count; i++) {
    int at = node_at(b, a->nodes[i].id);
    CHECK(at >= 0);
    CHECK_EQUAL(a->nodes[i].flags, b->nodes[at].flags);
    CHECK(strcmp(a->nodes[i].label, b->nodes[at].label) == 0);
  }
  CHECK_EQUAL(a->starts, b->starts);
  for (uint32_t i = 0; i < a->starts; i++) {
    bool found = false;
    for (uint32_t k = 0; k < b->starts; k++) found |= a->started[i].id == b->started[k].id && strcmp(a->started[i].with, b->started[k].with) == 0;
    CHECK(found);
  }
  CHECK(strcmp(a->told, b->told) == 0);
  for (int i = 0; i < 200; i++) CHECK(strcmp(a->strings[i], b->strings[i]) == 0);
  CHECK_EQUAL(a->correlation, b->correlation);
}

static uint64_t state = 42;

static uint32_t chance(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % below;
}

static struct interned registered(uint32_t index) {
  static const char *const texts[] = {"", "registered.one", "registered.two"};
  return (struct interned){.bytes = (const uint8_t *)texts[index], .length = (uint32_t)strlen(texts[index])};
}

static struct interned domain(uint32_t index) {
  static const char *const names[] = {"", "NCCL", "other"};
  return (struct interned){.bytes = (const uint8_t *)names[index], .length = (uint32_t)strlen(names[index])};
}

static uint32_t depths[THREADS][DOMAINS], started;

// random_payload gives what came with the event before on that thread, or what comes with the next.
static void random_payload(struct encoder *e, uint64_t time, uint32_t thread, kw_payload p) {
  union {
    kw_payload payload;
    uint8_t room[sizeof p + 8];
  } u;
  memset(&u, 0, sizeof u);
  p.schema = 1 + chance(3);
  p.zero = schemas_find(p.domain, p.schema);
  if (p.zero == 0) return;
  p.head = (kw_event){.kind = KW_PAYLOAD, .length = sizeof p + 8, .thread = thread, .time = time};
  p.length = 1 + chance(4);
  u.payload = p;
  memset(&u.payload + 1, (int)('a' + chance(20)), p.length);
  encode_event(e, &u.payload.head);
}

static uint32_t told[4]; // payloads of pops, by schema: no more than are kept for ever

static void random_event(struct encoder *e, uint64_t time) {
  union {
    kw_push push;
    uint8_t room[128];
  } u;
  memset(&u, 0, sizeof u);
  void *at = &u;
  uint32_t thread = 1 + chance(THREADS - 1), d = chance(DOMAINS), what = chance(12);
  uint16_t kind = 0, length = 0;
  uint64_t node = (uint64_t)(1 + chance(6)) << 32 | chance(12), other = (uint64_t)(1 + chance(6)) << 32 | chance(12);
  if (what < 3 && depths[thread][d] < 60) {
    kind = KW_PUSH;
    u.push.domain = d;
    u.push.depth = d == 2 ? KW_DEPTH_UNKNOWN : ++depths[thread][d];
    if (chance(4) == 0) {
      u.push.text = 1 + chance(2);
      u.push.length = EVENTS_REGISTERED;
      length = sizeof u.push;
    } else {
      u.push.length = (uint32_t)sprintf((char *)&u.push + sizeof u.push, "text.%u", chance(60));
      length = (uint16_t)(sizeof u.push + ((u.push.length + 7u) & ~7u));
    }
  } else if (what < 5) {
    kind = KW_POP;
    if (depths[thread][d] > 0 && d == 1 && chance(4) == 0 && told[0]++ < 12) {
      random_payload(e, time, thread, (kw_payload){.domain = d, .depth = depths[thread][d], .site = KW_POP});
    }
    *(kw_pop *)at = (kw_pop){.domain = d, .depth = KW_DEPTH_UNKNOWN};
    if (d != 2) ((kw_pop *)at)->depth = depths[thread][d] > 0 ? --depths[thread][d] : 0;
    length = sizeof(kw_pop);
  } else if (what < 8) {
    kind = KW_NODE_CREATED;
    *(kw_node_created *)at = (kw_node_created){.node = node, .flags = chance(2)};
    length = sizeof(kw_node_created);
  } else if (what == 8) {
    kind = KW_NODE_CLONED;
    *(kw_node_cloned *)at = (kw_node_cloned){.original = node, .clone = other};
    length = sizeof(kw_node_cloned);
  } else if (what == 9) {
    kind = chance(5) == 0 ? KW_GRAPH_FORGOTTEN : KW_NODE_FORGOTTEN;
    if (kind == KW_GRAPH_FORGOTTEN) *(kw_graph_forgotten *)at = (kw_graph_forgotten){.graph = (uint32_t)(node >> 32)};
    else *(kw_node_forgotten *)at = (kw_node_forgotten){.node = node};
    length = sizeof(kw_node_forgotten);
  } else if (what == 10) {
    kind = KW_LAUNCH;
    *(kw_launch *)at = (kw_launch){.correlation = (uint32_t)time};
    length = sizeof(kw_launch);
  } else if (chance(2) == 0) {
    kind = KW_START;
    *(kw_start *)at = (kw_start){.range = ++started, .domain = d, .text = 1, .length = EVENTS_REGISTERED};
    length = sizeof(kw_start);
  } else {
    kind = KW_END;
    *(kw_end *)at = (kw_end){.range = 1 + chance(started + 1)};
    length = sizeof(kw_end);
  }
  u.push.head = (kw_event){.kind = kind, .length = length, .thread = thread, .time = time};
  encode_event(e, &u.push.head);
  for (uint32_t n = kind == KW_PUSH || kind == KW_START ? chance(3) : 0; n > 0; n--) {
    kw_payload p = {.domain = d, .depth = KW_DEPTH_UNKNOWN, .site = kind};
    if (kind == KW_START) p.range = started;
    else if (d != 2) p.depth = depths[thread][d];
    random_payload(e, time, thread, p);
  }
}

static void register_schemas(void) {
  for (uint64_t id = 1; id <= 3; id++) {
    nvtx_schema_entry entry = {.type = 18, .name = "entry"};
    nvtx_schema s = {.fields = SCHEMA_ENTRIES | SCHEMA_COUNT | SCHEMA_SIZE | SCHEMA_ID, .entries = &entry, .count = 1, .size = 4, .id = id};
    for (uint32_t d = 0; d < DOMAINS; d++) {
      if (id < 3) CHECK_EQUAL(schemas_add(d, &s, 0), id);
    }
  }
}

static void snapshot_at_every_frame(void) {
  register_schemas();
  struct losses losses = {0};
  struct queue q = {.bound = 1 << 30, .losses = &losses};
  struct encoder e = {.queue = &q, .names = {registered, domain}};
  for (uint64_t i = 1; i <= 3000; i++) {
    random_event(&e, i - i % 8); // some at one time, so that their order says which came first
    if (chance(20) == 0) encode_close(&e);
  }
  encode_close(&e);
  static struct model whole, part;
  for (const struct frame *f = q.first; f != NULL; f = f->next) frame(&whole, f->bytes);
  CHECK(whole.node_count > 10 && whole.starts > 0 && strlen(whole.told) > 20);
  while (queue_send(&q) != NULL) continue;
  q.sent = q.number;
  for (uint64_t cut = 0; cut <= q.number; cut++) {
    CHECK(queue_acknowledge(&q, cut));
    struct bytes out = {0};
    CHECK(base_snapshot(&q.base, &e.strings, 5, &out));
    memset(&part, 0, sizeof part);
    for (size_t at = 0; at < out.used;) {
      kw_frame f;
      memcpy(&f, out.data + at, sizeof f);
      CHECK_EQUAL(f.number, 0);
      CHECK(f.kind == KW_BASE || f.flags == KW_PINNED);
      frame(&part, out.data + at);
      at += sizeof f + f.length;
    }
    bytes_free(&out);
    CHECK_EQUAL(part.base, cut);
    for (uint32_t d = 0; d < DOMAINS; d++) CHECK_EQUAL(part.depth[KW_THREAD_LABELS][d], 0);
    for (const struct frame *f = q.first; f != NULL; f = f->next) frame(&part, f->bytes);
    same(&whole, &part);
  }
  CHECK_EQUAL(q.bytes, 0);
  CHECK_EQUAL(q.base.dropped, 0);
  encode_free(&e);
  queue_free(&q);
}

static void add_kernels(struct encoder *e, uint64_t start, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    kw_kernel k = {.start = start + i, .end = start + i + 10, .name = encode_name(e, "kernel", 6)};
    encode_kernel(e, &k);
  }
  encode_close(e);
}

static void bound(void) {
  struct losses losses = {0};
  struct queue q = {.bound = 5000, .losses = &losses};
  struct encoder e = {.queue = &q};
  add_kernels(&e, 1000, 10); // frames 1 (the name) and 2
  for (uint64_t i = 2; i <= 10; i++) add_kernels(&e, i * 1000, 10);
  CHECK_EQUAL(q.number, 11);
  CHECK(queue_trim(&q)); // nothing was sent: what is dropped is lost
  CHECK(q.bytes <= 5000 && q.first->number == q.base.number + 1);
  uint64_t dropped = q.base.number - 1; // frames of kernels
  kw_lost l = {0};
  CHECK(losses_take(&losses, &l));
  CHECK_EQUAL(l.reason, KW_LOST_SHIM_BUFFER);
  CHECK_EQUAL(l.what, KW_OF_KERNELS);
  CHECK_EQUAL(l.count, dropped * 10);
  CHECK_EQUAL(l.from, 1000);
  CHECK_EQUAL(l.to, dropped * 1000 + 19);
  CHECK(!losses_take(&losses, &l));
  CHECK_EQUAL(q.base.strings, 1); // the name was folded, not lost

  // A count that goes out is not lost with its frame.
  encode_frame(&e, KW_LOST, &l, sizeof l);
  q.bound = 0;
  CHECK(queue_trim(&q));
  CHECK(losses_take(&losses, &l));
  CHECK_EQUAL(l.count, 100);
  encode_free(&e);
  queue_free(&q);
}

// husks: what was sent and then dropped is lost only if the next collector never had it.
static void husks(void) {
  for (int known = 0; known < 2; known++) {
    struct losses losses = {0};
    struct queue q = {.bound = 1 << 20, .losses = &losses};
    struct encoder e = {.queue = &q};
    kw_lost l = {0};
    for (uint64_t i = 1; i <= 3; i++) add_kernels(&e, i * 1000, 10); // frames 1 to 4
    for (struct frame *f; q.sent < 3 && (f = queue_send(&q)) != NULL;) queue_sent(&q, f);
    struct frame *sending = queue_send(&q);
    q.bound = 0;
    CHECK(!queue_trim(&q));
    CHECK_EQUAL(q.bytes, 0);
    CHECK(sending->bytes != NULL); // the link is still sending it
    queue_unsent(&q, sending);
    CHECK(!losses_take(&losses, &l));
    CHECK(!queue_acknowledge(&q, 4)); // never sent whole
    CHECK(queue_resume(&q, 1, known ? 4 : 2));
    CHECK(losses_take(&losses, &l) == !known);
    if (!known) CHECK_EQUAL(l.count, 20); // frames 3 and 4
    CHECK(q.first == NULL && queue_send(&q) == NULL);
    CHECK(queue_acknowledge(&q, 4)); // the end of the snapshot
    CHECK(!queue_resume(&q, 0, 5));
    struct bytes out = {0};
    static struct model m;
    CHECK(base_strings(&q.base, &e.strings, &out));
    frame(&m, out.data);
    CHECK(strcmp(m.strings[1], "kernel") == 0 && ((kw_frame *)(void *)out.data)->number == 4);
    bytes_free(&out);
    encode_free(&e);
    queue_free(&q);
  }
}

int main(void) {
  snapshot_at_every_frame();
  bound();
  husks();
  return 0;
}
