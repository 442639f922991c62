// Ranges that are left open: what is pushed above them keeps its text at any depth, in labels and in the snapshot.
#include "check.h"
#include "transport/base.h"
#include "transport/wire.h"

#include <string.h>

static struct base base;
static uint64_t number;

static void fold(const void *event, uint32_t bytes) {
  uint32_t correlation;
  base_fold(&base, ++number, KW_EVENTS, event, bytes, &correlation);
}

// push opens a range with its depth as its text and time, or with another text.
static void push(uint32_t thread, uint32_t domain, uint32_t depth, uint64_t time, const char *text) {
  struct {
    kw_push e;
    char text[64];
  } u;
  memset(&u, 0, sizeof u);
  u.e.length = (uint32_t)snprintf(u.text, sizeof u.text, text == NULL ? "leaked.%u" : text, (unsigned)time);
  uint32_t bytes = (uint32_t)sizeof u.e + ((u.e.length + 7u) & ~7u);
  u.e.head = (kw_event){.kind = KW_PUSH, .length = (uint16_t)bytes, .thread = thread, .time = time};
  u.e.domain = domain;
  u.e.depth = depth;
  fold(&u, bytes);
}

static void pop(uint32_t thread, uint32_t domain, uint32_t depth) {
  kw_pop e = {.head = {.kind = KW_POP, .length = sizeof e, .thread = thread}, .domain = domain, .depth = depth};
  fold(&e, sizeof e);
}

// label gives the innermost text that a graph node made on the thread is labelled with; NULL: none.
static const char *label(uint32_t thread) {
  static char text[64];
  static uint32_t nodes;
  kw_node_created e = {.head = {.kind = KW_NODE_CREATED, .length = sizeof e, .thread = thread}, .node = ++nodes};
  fold(&e, sizeof e);
  const struct node *n = nodes_get(&base.nodes, e.node);
  CHECK(n != NULL);
  if (n->label == 0) return NULL;
  struct interned is = intern_text(&base.labels, n->label);
  kw_push p;
  memcpy(&p, is.bytes, sizeof p);
  CHECK_EQUAL(is.length, sizeof p + ((p.length + 7u) & ~7u));
  memcpy(text, is.bytes + sizeof p, p.length);
  text[p.length] = 0;
  return text;
}

// A said range is one PUSH of the snapshot.
struct said {
  uint32_t thread, depth;
  uint64_t time;
  char text[64];
};

static struct said said[70000];

// snapshot reads what the snapshot pushes, but for labels.
static uint32_t snapshot(void) {
  struct bytes out = {0};
  struct intern none = {0};
  CHECK(base_snapshot(&base, &none, 1, &out));
  uint32_t count = 0;
  for (size_t at = 0; at < out.used;) {
    kw_frame f;
    memcpy(&f, out.data + at, sizeof f);
    at += sizeof f;
    for (size_t end = at + f.length; at < end;) {
      if (f.kind != KW_EVENTS) {
        at = end;
        break;
      }
      kw_push p = {0};
      const kw_event *e = (const void *)(out.data + at);
      if (e->kind == KW_PUSH && e->thread != KW_THREAD_LABELS) {
        memcpy(&p, e, sizeof p);
        CHECK(count < sizeof said / sizeof *said && p.length < sizeof said->text);
        struct said *to = &said[count++];
        *to = (struct said){.thread = e->thread, .depth = p.depth, .time = e->time};
        memcpy(to->text, out.data + at + sizeof p, p.length);
      }
      at += e->length;
    }
  }
  bytes_free(&out);
  return count;
}

static void check_leaked(uint32_t at, uint32_t depth) {
  char text[64];
  snprintf(text, sizeof text, "leaked.%u", depth);
  CHECK_EQUAL(said[at].depth, depth);
  CHECK_EQUAL(said[at].time, depth);
  CHECK(strcmp(said[at].text, text) == 0);
}

static void check_said(uint32_t at, uint32_t depth, const char *text) {
  CHECK_EQUAL(said[at].depth, depth);
  CHECK(strcmp(said[at].text, text) == 0);
}

static void begin(void) {
  base_free(&base);
  base = (struct base){0};
}

// 70 ranges are left open before a step: all fits.
static void seventy(uint32_t (*depth)(uint32_t)) {
  begin();
  for (uint32_t i = 1; i <= 70; i++) push(7, 0, depth(i), i, NULL);
  push(7, 0, depth(71), 71, "step:decode");
  push(7, 0, depth(72), 72, "call");
  CHECK(strcmp(label(7), "call") == 0);
  CHECK_EQUAL(snapshot(), 72);
  for (uint32_t i = 1; i <= 70; i++) check_leaked(i - 1, i);
  check_said(70, 71, "step:decode");
  check_said(71, 72, "call");
  pop(7, 0, depth(71));
  CHECK(strcmp(label(7), "step:decode") == 0);
  CHECK_EQUAL(snapshot(), 71);
  CHECK_EQUAL(base.dropped, 0);
}

static uint32_t known(uint32_t depth) { return depth; }
static uint32_t unknown(uint32_t depth) { return (void)depth, KW_DEPTH_UNKNOWN; }

// 1,000 are: the outermost 64 and the innermost 64 stay.
static void a_thousand(uint32_t (*depth)(uint32_t)) {
  begin();
  for (uint32_t i = 1; i <= 1000; i++) push(7, 0, depth(i), i, NULL);
  push(7, 0, depth(1001), 1001, "step:decode");
  push(7, 0, depth(1002), 1002, "call");
  CHECK(strcmp(label(7), "call") == 0);
  CHECK_EQUAL(snapshot(), 128);
  for (uint32_t i = 1; i <= 64; i++) check_leaked(i - 1, i);
  for (uint32_t i = 939; i <= 1000; i++) check_leaked(i - 939 + 64, i);
  check_said(126, 1001, "step:decode");
  check_said(127, 1002, "call");
  CHECK_EQUAL(base.dropped, 1002 - 128); // each that made room is counted

  // Steps come and go up there, and nothing more is lost.
  for (int i = 0; i < 500; i++) {
    pop(7, 0, depth(1001));
    pop(7, 0, depth(1000));
    push(7, 0, depth(1001), 2000, "step:next");
    CHECK(strcmp(label(7), "step:next") == 0);
    push(7, 0, depth(1002), 2001, "call.next");
    CHECK(strcmp(label(7), "call.next") == 0);
  }
  CHECK_EQUAL(base.dropped, 1002 - 128);
  CHECK_EQUAL(snapshot(), 128);
  check_said(126, 1001, "step:next");

  // The thread goes down among those that are not kept: they have no text, and their depth is right.
  for (uint32_t i = 1002; i-- > 500;) pop(7, 0, depth(i));
  CHECK(label(7) == NULL);
  CHECK_EQUAL(snapshot(), 65);
  check_leaked(63, 64);
  check_said(64, 500, "");
  push(7, 0, depth(501), 3000, "call.again");
  CHECK(strcmp(label(7), "call.again") == 0);
  CHECK_EQUAL(snapshot(), 65);
  check_said(64, 501, "call.again");
  for (uint32_t i = 501; i-- > 63;) pop(7, 0, depth(i));
  CHECK(strcmp(label(7), "leaked.63") == 0);
  CHECK_EQUAL(snapshot(), 63);
  for (uint32_t i = 63; i-- > 0;) pop(7, 0, depth(i));
  CHECK(label(7) == NULL);
  CHECK_EQUAL(snapshot(), 0);
  CHECK_EQUAL(base.ranges.bytes, 0);
  CHECK_EQUAL(base.ranges.open, 0);
}

// Lost events: a depth that was told says how it is, upwards and downwards.
static void told_depth(void) {
  begin();
  push(7, 0, 1, 1, NULL);
  push(7, 0, 5, 5, NULL); // 2 to 4 were lost
  CHECK_EQUAL(snapshot(), 2);
  check_leaked(0, 1);
  check_leaked(1, 5);
  pop(7, 0, 4);
  CHECK(label(7) == NULL);
  CHECK_EQUAL(snapshot(), 2);
  check_said(1, 4, "");
  pop(7, 0, 1); // the pops of 3 and 4 were lost, and that of 2 came
  CHECK(strcmp(label(7), "leaked.1") == 0);
  push(7, 0, 1, 9, "anew"); // and here that of 1
  CHECK(strcmp(label(7), "anew") == 0);
  CHECK_EQUAL(snapshot(), 1);
}

// All stacks together are bounded: what finds no room is counted, and the depth goes on.
static void many_threads(void) {
  begin();
  for (uint32_t t = 1; t <= 1025; t++) {
    for (uint32_t i = 1; i <= 64; i++) push(t, 0, i, i, NULL);
  }
  CHECK_EQUAL(base.ranges.open, RANGES_OPEN); // 1,024 times 64
  CHECK_EQUAL(base.dropped, 64);              // those of the last thread
  CHECK_EQUAL(snapshot(), 65536 + 1);         // and that it is 64 deep
  CHECK(strcmp(label(1024), "leaked.64") == 0);
  CHECK(label(1025) == NULL);
  pop(1, 0, 0);
  push(1025, 0, 65, 65, NULL);
  CHECK(strcmp(label(1025), "leaked.65") == 0);
  CHECK_EQUAL(base.dropped, 64);
}

// Ranges of the process, too: 1,024 are kept, and one that ends makes room.
static void many_started(void) {
  begin();
  for (uint64_t i = 1; i <= 1026; i++) {
    kw_start e = {.head = {.kind = KW_START, .length = sizeof e, .thread = 1, .time = i}, .range = i};
    fold(&e, sizeof e);
  }
  CHECK_EQUAL(base.ranges.starts, 1024);
  CHECK_EQUAL(base.dropped, 2);
  kw_end end = {.head = {.kind = KW_END, .length = sizeof end}, .range = 5};
  fold(&end, sizeof end);
  CHECK_EQUAL(base.ranges.starts, 1023);
  CHECK_EQUAL(base.ranges.started[4].range, 6);
}

int main(void) {
  seventy(known);
  seventy(unknown);
  a_thousand(known);
  a_thousand(unknown);
  told_depth();
  many_threads();
  many_started();
  base_free(&base);
  return 0;
}
