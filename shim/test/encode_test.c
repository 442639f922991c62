// Filling frames: names before their use, events behind the records that they follow, losses with their times.
#include "capture/encode.h"
#include "capture/events.h"
#include "check.h"

#include <string.h>

static struct losses losses;
static struct queue q = {.bound = 1 << 28, .losses = &losses};
static struct encoder e = {.queue = &q};

static struct frame *frame(uint16_t kind) {
  struct frame *f = queue_send(&q);
  CHECK(f != NULL);
  CHECK_EQUAL(f->kind, kind);
  return f;
}

static const void *body(const struct frame *f) { return f->bytes + sizeof(kw_frame); }
static size_t length(const struct frame *f) { return f->size - sizeof(kw_frame); }

static void check_end(void) {
  encode_close(&e);
  CHECK(queue_send(&q) == NULL);
  CHECK_EQUAL(encode_pending(&e), 0);
}

static void kernel(uint64_t start, uint64_t end, uint32_t name) {
  kw_kernel k = {.start = start, .end = end, .name = name};
  encode_kernel(&e, &k);
}

static void copy(uint64_t start, uint64_t end) {
  kw_copy c = {.start = start, .end = end};
  encode_copy(&e, &c);
}

static void forgotten(uint64_t time, uint32_t graph) {
  kw_graph_forgotten f = {.head = {.kind = KW_GRAPH_FORGOTTEN, .length = sizeof f, .time = time}, .graph = graph};
  encode_event(&e, &f.head);
}

static void push(const char *text, uint32_t domain, uint64_t time) {
  struct {
    kw_push e;
    char text[256];
  } u;
  memset(&u, 0, sizeof u);
  u.e.length = (uint32_t)strlen(text);
  strcpy(u.text, text);
  u.e.head = (kw_event){.kind = KW_PUSH, .length = (uint16_t)(sizeof u.e + ((u.e.length + 7) & ~7u)), .thread = 3, .time = time};
  u.e.domain = domain;
  u.e.depth = 9;
  encode_event(&e, &u.e.head);
}

// Of one round the frames go out in this order: names, events, kernels, copies.
static void order_in_a_round(void) {
  forgotten(1, 5);
  kernel(10, 20, encode_name(&e, "k", 1));
  copy(11, 12);
  encode_close(&e);
  CHECK_EQUAL(length(frame(KW_STRINGS)), sizeof(kw_string) + 8);
  CHECK_EQUAL(length(frame(KW_EVENTS)), sizeof(kw_graph_forgotten));
  CHECK_EQUAL(length(frame(KW_KERNELS)), sizeof(kw_kernel));
  CHECK_EQUAL(length(frame(KW_COPIES)), sizeof(kw_copy));
  check_end();
}

// An event that comes after records stays after them: it may forget the graph that they belong to.
static void events_after_records(void) {
  forgotten(1, 5);
  forgotten(2, 6);
  kernel(10, 20, 0);
  forgotten(3, 7);
  copy(30, 40);
  forgotten(4, 8);
  encode_close(&e);
  struct frame *f = frame(KW_EVENTS);
  CHECK_EQUAL(length(f), 2 * sizeof(kw_graph_forgotten));
  frame(KW_KERNELS);
  f = frame(KW_EVENTS);
  CHECK_EQUAL(length(f), sizeof(kw_graph_forgotten));
  CHECK_EQUAL(((const kw_graph_forgotten *)body(f))->graph, 7);
  frame(KW_COPIES);
  f = frame(KW_EVENTS);
  CHECK_EQUAL(((const kw_graph_forgotten *)body(f))->graph, 8);
  kernel(50, 60, 0);
  copy(50, 60); // as many bytes
  forgotten(5, 9);
  encode_close(&e);
  frame(KW_KERNELS), frame(KW_COPIES);
  CHECK_EQUAL(((const kw_graph_forgotten *)body(frame(KW_EVENTS)))->graph, 9);
  check_end();
}

// A frame that stands alone comes after all that was before.
static void alone(void) {
  kernel(1, 2, 0);
  kw_flushed flushed = {.now = 5, .flushed = 4};
  encode_frame(&e, KW_FLUSHED, &flushed, sizeof flushed);
  kernel(3, 4, 0);
  CHECK_EQUAL(encode_pending(&e), sizeof(kw_kernel));
  frame(KW_KERNELS);
  CHECK(memcmp(body(frame(KW_FLUSHED)), &flushed, sizeof flushed) == 0);
  CHECK(queue_send(&q) == NULL); // the second is still being filled
  encode_close(&e);
  frame(KW_KERNELS);
  check_end();
}

// A frame is closed before it has more than 256 KiB: 4,096 kernels fill one to the byte.
static void full(void) {
  for (uint64_t i = 0; i < 4096; i++) kernel(1000 + i, 1001 + i, 0);
  CHECK(queue_send(&q) == NULL);
  CHECK_EQUAL(encode_pending(&e), 256 << 10);
  kernel(9000, 9001, 0);
  struct frame *f = frame(KW_KERNELS);
  CHECK_EQUAL(length(f), 256 << 10);
  CHECK(f->stake.reason == KW_LOST_SHIM_BUFFER && f->stake.what == KW_OF_KERNELS);
  CHECK(f->stake.is.count == 4096 && f->stake.is.from == 1000 && f->stake.is.to == 5096);
  encode_close(&e);
  f = frame(KW_KERNELS);
  CHECK(f->stake.is.count == 1 && f->stake.is.from == 9000 && f->stake.is.to == 9001);
  check_end();
}

// What a frame stands for, if it is lost: all between its earliest start and its latest end.
static void stakes(void) {
  kernel(50, 60, 0);
  kernel(40, 45, 0);
  kernel(55, 58, 0);
  copy(7, 9);
  forgotten(70, 1);
  encode_close(&e);
  struct stake s = frame(KW_KERNELS)->stake;
  CHECK(s.what == KW_OF_KERNELS && s.is.count == 3 && s.is.from == 40 && s.is.to == 60);
  s = frame(KW_COPIES)->stake;
  CHECK(s.what == KW_OF_COPIES && s.is.count == 1 && s.is.from == 7 && s.is.to == 9);
  s = frame(KW_EVENTS)->stake;
  CHECK(s.what == KW_OF_EVENTS && s.is.count == 1 && s.is.from == 70 && s.is.to == 70);
  CHECK_EQUAL(encode_name(&e, "other", 5), 2);
  kw_lost l = {.reason = KW_LOST_SHIM_EVENTS, .what = KW_OF_EVENTS, .count = 8, .from = 1, .to = 2};
  encode_frame(&e, KW_LOST, &l, sizeof l);
  CHECK_EQUAL(frame(KW_STRINGS)->stake.is.count, 0); // a name is not lost with its frame
  s = frame(KW_LOST)->stake;
  CHECK(s.reason == KW_LOST_SHIM_EVENTS && s.what == KW_OF_EVENTS && s.is.count == 8 && s.is.from == 1 && s.is.to == 2);
  check_end();
}

static void check_push(const struct frame *f, size_t at, uint32_t id, const char *text) {
  kw_push p;
  memcpy(&p, (const uint8_t *)body(f) + at, sizeof p);
  CHECK(p.head.kind == KW_PUSH && p.head.thread == 3 && p.depth == 9);
  CHECK_EQUAL(p.text, id);
  CHECK_EQUAL(p.length, strlen(text));
  CHECK_EQUAL(p.head.length, sizeof p + ((strlen(text) + 7) & ~7ull));
  CHECK(memcmp((const uint8_t *)body(f) + at + sizeof p, text, strlen(text)) == 0);
}

// A text that comes again gets an id: its first time it is written out, from the second on it is not.
static void texts(void) {
  push("step:decode seq=1", 0, 1);
  push("layers.8", 0, 2);
  push("layers.8", 0, 3);
  push("layers.8", 0, 4);
  push("", 0, 5);
  push("", 0, 6);
  encode_close(&e);
  struct frame *f = frame(KW_STRINGS);
  CHECK_EQUAL(length(f), sizeof(kw_string) + 8);
  const kw_string *s = body(f);
  CHECK(s->id == 3 && s->length == 8 && memcmp(s + 1, "layers.8", 8) == 0);
  f = frame(KW_EVENTS);
  const size_t head = sizeof(kw_push);
  check_push(f, 0, 0, "step:decode seq=1"); // 17 bytes, and 7 zeros
  check_push(f, head + 24, 0, "layers.8");
  check_push(f, 2 * head + 32, 3, "");
  check_push(f, 3 * head + 32, 3, "");
  check_push(f, 4 * head + 32, 0, "");
  check_push(f, 5 * head + 32, 0, "");
  CHECK_EQUAL(length(f), 6 * head + 32);
  check_end();
}

static struct interned domain(uint32_t index) {
  CHECK(index == 7 || index == ENCODE_DOMAINS - 1);
  return (struct interned){.bytes = (const uint8_t *)"NCCL", .length = 4};
}

// A domain's name goes out once, before its first range; the default one has none.
static void domains(void) {
  e.names.domain = domain;
  push("a", 0, 1);
  push("b", 7, 2);
  push("c", 7, 3);
  push("d", ENCODE_DOMAINS - 1, 4);
  push("e", ENCODE_DOMAINS, 5); // of no known name
  encode_close(&e);
  struct frame *f = frame(KW_EVENTS);
  static const uint16_t kinds[] = {KW_PUSH, KW_DOMAIN, KW_PUSH, KW_PUSH, KW_DOMAIN, KW_PUSH, KW_PUSH};
  size_t at = 0;
  for (int i = 0; i < 7; i++) {
    const kw_event *event = (const void *)((const uint8_t *)body(f) + at);
    CHECK_EQUAL(event->kind, kinds[i]);
    if (i == 1) {
      const kw_domain *d = (const void *)event;
      CHECK(d->domain == 7 && d->length == 4 && memcmp(d + 1, "NCCL", 4) == 0 && event->time == 2 && event->thread == 3);
    }
    at += event->length;
  }
  CHECK_EQUAL(at, length(f));
  check_end();
}

// The callbacks behind events: a launch has two, its capture none of its own, a graph's each one.
static void counts(void) {
  uint64_t callbacks = e.callbacks_seen, events = e.events_seen, ranges = e.ranges_seen;
  static const struct {
    uint16_t kind;
    int callbacks, ranges;
  } kinds[] = {{KW_LAUNCH, 2, 0},         {KW_CAPTURED, 0, 0},        {KW_NODE_CREATED, 1, 0}, {KW_NODE_CLONED, 1, 0},
               {KW_GRAPH_FORGOTTEN, 1, 0}, {KW_NODE_FORGOTTEN, 1, 0}, {KW_POP, 0, 1},          {KW_END, 0, 1}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    union {
      kw_event head;
      kw_node_created longest;
    } u = {.head = {.kind = kinds[i].kind, .length = sizeof u}};
    encode_event(&e, &u.head);
    CHECK_EQUAL(e.callbacks_seen, callbacks += (uint64_t)kinds[i].callbacks);
    CHECK_EQUAL(e.ranges_seen, ranges += (uint64_t)kinds[i].ranges);
    CHECK_EQUAL(e.events_seen, ++events);
  }
  encode_close(&e);
  frame(KW_EVENTS);
  check_end();
}

// Names fill frames of their own, which go out before the frame in which they are used.
static void many_names(void) {
  char text[1000];
  memset(text, 'n', sizeof text);
  uint32_t last = 0;
  for (int i = 0; i < 300; i++) { // 302 KB
    text[0] = (char)(i & 0x7f);
    text[1] = (char)(i >> 7);
    last = encode_name(&e, text, sizeof text);
    kernel(1, 2, last);
  }
  CHECK_EQUAL(encode_name(&e, text, sizeof text), last);
  encode_close(&e);
  uint32_t known = 0, used = 0;
  for (struct frame *f; (f = queue_send(&q)) != NULL;) {
    for (size_t at = 0; at < length(f);) {
      if (f->kind == KW_STRINGS) {
        const kw_string *s = (const void *)((const uint8_t *)body(f) + at);
        if (known > 0) CHECK_EQUAL(s->id, known + 1); // ascending
        known = s->id;
        at += sizeof *s + ((s->length + 7) & ~7u);
        CHECK(at <= (256 << 10) + sizeof *s + sizeof text);
      } else {
        CHECK_EQUAL(f->kind, KW_KERNELS);
        const kw_kernel *k = (const void *)((const uint8_t *)body(f) + at);
        CHECK(k->name <= known);
        used++;
        at += sizeof *k;
      }
    }
  }
  CHECK(known == last && used == 300);
  check_end();
}

int main(void) {
  check_end(); // nothing makes no frame
  order_in_a_round();
  events_after_records();
  alone();
  full();
  stakes();
  texts();
  domains();
  counts();
  many_names();
  queue_free(&q);
  encode_free(&e);
  return 0;
}
