// NVTX through its own tables, as an image of a process sets them up; before the first context and after; and that a
// new thread's ranges and launches neither allocate nor lock.
#include "capture/asked.h"
#include "capture/callbacks.h"
#include "capture/calls.h"
#include "capture/cupti.h"
#include "capture/events.h"
#include "capture/meter.h"
#include "capture/mode.h"
#include "capture/nvtx_abi.h"
#include "capture/pool.h"
#include "capture/scrap.h"
#include "check.h"

#include <pthread.h>
#include <string.h>

int InitializeInjectionNvtx2(nvtx_get_table get);

// Linked with --wrap: what the shim itself calls is counted here.
static _Thread_local unsigned costs;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
int __real_pthread_mutex_lock(pthread_mutex_t *m);
void *__wrap_malloc(size_t n) { return costs++, __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return costs++, __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return costs++, __real_realloc(p, n); }
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) { return costs++, __real_pthread_mutex_lock(m); }

static void initialiser(void) { CHECK(!"NVTX's own initialiser is never called again"); }

static nvtx_function core[NVTX_SLOTS], core2[NVTX_SLOTS];
static nvtx_function *core_slots[NVTX_SLOTS + 1], *core2_slots[NVTX_SLOTS + 1];

static int module_table(int module, nvtx_function ***table, unsigned int *size) {
  if (module != NVTX_CORE && module != NVTX_CORE2) return 0;
  *table = module == NVTX_CORE ? core_slots : core2_slots;
  *size = NVTX_SLOTS;
  return 1;
}

static const void *get_table(uint32_t id) {
  static const nvtx_callbacks callbacks = {sizeof callbacks, module_table};
  return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

#define PUSH_A ((int (*)(const char *))core[CORE_PUSH_A])
typedef int push_ex(const nvtx_attributes *);
#define PUSH_W ((int (*)(const wchar_t *))core[CORE_PUSH_W])
#define POP ((int (*)(void))core[CORE_POP])
#define START_A ((uint64_t (*)(const char *))core[CORE_START_A])
#define END ((void (*)(uint64_t))core[CORE_END])
#define DOMAIN_A ((void *(*)(const char *))core2[CORE2_CREATE_A])
#define DOMAIN_PUSH ((int (*)(void *, const nvtx_attributes *))core2[CORE2_PUSH_EX])
#define DOMAIN_POP ((int (*)(void *))core2[CORE2_POP])
#define REGISTER_A ((void *(*)(void *, const char *))core2[CORE2_REGISTER_A])

static uint8_t taken[1 << 16];
static size_t at, got;

// next gives the next event in the ring.
static const kw_event *next(void) {
  if (at == got) {
    at = 0;
    got = ring_take(events_ring(), taken, sizeof taken);
    CHECK(got > 0);
  }
  const kw_event *e = (const void *)(taken + at);
  at += e->length;
  return e;
}

static void pushed(const char *text, uint32_t domain, uint32_t depth) {
  const kw_push *e = (const void *)next();
  CHECK_EQUAL(e->head.kind, KW_PUSH);
  CHECK_EQUAL(e->domain, domain);
  CHECK_EQUAL(e->depth, depth);
  CHECK_EQUAL(e->length, strlen(text));
  CHECK(memcmp(e + 1, text, e->length) == 0);
}

static void popped(uint32_t domain, uint32_t depth) {
  const kw_pop *e = (const void *)next();
  CHECK_EQUAL(e->head.kind, KW_POP);
  CHECK_EQUAL(e->domain, domain);
  CHECK_EQUAL(e->depth, depth);
}

static void *launch_from_new_thread(void *registered) {
  nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = MESSAGE_REGISTERED, .message = registered};
  cupti_api_data call = {.site = 0, .correlation = 99};
  DOMAIN_PUSH(NULL, &a);
  PUSH_A("inner");
  PUSH_W(L"\u00e4");
  callbacks_api(NULL, CUPTI_DRIVER_API, 514, &call);
  call.site = 1;
  callbacks_api(NULL, CUPTI_DRIVER_API, 514, &call);
  POP();
  CHECK_EQUAL(costs, 0);
  return NULL;
}

// Before the first context, too, the last ranges are known of a thread that leaves many open.
static void *leave_open(void *unused) {
  char text[32];
  for (int i = 1; i <= 70; i++) {
    snprintf(text, sizeof text, "leaked.%d", i);
    CHECK_EQUAL(PUSH_A(text), i - 1);
  }
  PUSH_A("step:early");
  return unused;
}

// Depth is told however deep it is.
static void *leave_very_many_open(void *unused) {
  for (int i = 0; i < 70000; i++) CHECK_EQUAL(PUSH_A("leaked"), i);
  at = got = 0;
  while (ring_take(events_ring(), taken, sizeof taken) > 0) continue;
  CHECK_EQUAL(PUSH_A("step"), 70000);
  pushed("step", 0, 70001);
  CHECK_EQUAL(POP(), 70000);
  popped(0, 70000);
  return unused;
}

static void started(uint64_t range, uint32_t domain, const char *text) {
  const kw_start *e = (const void *)next();
  CHECK(e->head.kind == KW_START && e->range == range && e->domain == domain && range != 0);
  CHECK_EQUAL(e->length, strlen(text));
  CHECK(memcmp(e + 1, text, e->length) == 0);
}

static void ended(uint64_t range) {
  const kw_end *e = (const void *)next();
  CHECK(e->head.kind == KW_END && e->range == range);
}

// The calls that say the same in other words.
static void *other_calls(void *nccl) {
  nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = MESSAGE_ASCII, .message = "ex"};
  uint64_t r = ((uint64_t(*)(const nvtx_attributes *))core[CORE_START_EX])(&a);
  started(r, 0, "ex");
  END(r);
  ended(r);
  uint64_t other = ((uint64_t(*)(const wchar_t *))core[CORE_START_W])(L"w");
  started(other, 0, "w");
  CHECK(other != r);
  CHECK_EQUAL(((int (*)(const nvtx_attributes *))core[CORE_PUSH_EX])(&a), 0);
  pushed("ex", 0, 1);
  CHECK_EQUAL(POP(), 0);
  popped(0, 0);
  r = ((uint64_t(*)(void *, const nvtx_attributes *))core2[CORE2_START_EX])(nccl, &a);
  started(r, 1, "ex");
  ((void (*)(void *, uint64_t))core2[CORE2_END])(nccl, r);
  ended(r);
  a.size = 8; // an older structure than ours: its text is not read
  CHECK_EQUAL(DOMAIN_PUSH(nccl, &a), 0);
  pushed("", 1, 1);
  CHECK_EQUAL(DOMAIN_POP(nccl), 0);
  popped(1, 0);
  CHECK(((void *(*)(const wchar_t *))core2[CORE2_CREATE_W])(L"NCCL") == nccl);
  CHECK(((void *(*)(void *, const wchar_t *))core2[CORE2_REGISTER_W])(nccl, L"registered") == REGISTER_A(NULL, "registered"));
  ((void (*)(void *))core2[CORE2_DESTROY])(nccl);
  CHECK(DOMAIN_A("NCCL") == nccl && DOMAIN_A("other") != nccl);
  CHECK_EQUAL(ring_used(events_ring()), 0);
  return NULL;
}

static void in_thread(void *(*run)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
  pthread_join(thread, NULL);
}

static int graph_node_id(void *node, uint64_t *id) {
  *id = (uintptr_t)node;
  return 0;
}

// Every 251st call of a thread is timed, wherever it began to count; the estimate is of all.
static void *many_launches(void *unused) {
  cupti_api_data call = {.correlation = 7};
  for (uint32_t i = 0; i < 10 * METER_EVERY; i++) {
    call.site = i % 2;
    callbacks_api(NULL, CUPTI_DRIVER_API, 307, &call);
    at = got = 0;
    ring_take(events_ring(), taken, sizeof taken);
  }
  CHECK_EQUAL(costs, 0);
  return unused;
}

static void metered(void) {
  uint64_t before = atomic_load(&meter_callbacks.timed), ranges = atomic_load(&meter_ranges.timed);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, many_launches, NULL) == 0);
  pthread_join(thread, NULL);
  CHECK_EQUAL(atomic_load(&meter_callbacks.timed) - before, 10);
  CHECK_EQUAL(atomic_load(&meter_ranges.timed), ranges);
  struct meter m = {.timed = 4, .ns = 200};
  CHECK_EQUAL(meter_estimate(&m, 1000), 50000);
  CHECK_EQUAL(meter_estimate(&(struct meter){0}, 1000), 0);
  for (int i = 0; i < 1000; i++) {
    uint16_t first = meter_first();
    CHECK(first >= 1 && first <= METER_EVERY);
  }
}

static int no_record(uint8_t *buffer, size_t valid, void **record) {
  (void)buffer, (void)valid, (void)record;
  return CUPTI_END_OF_BUFFER;
}

// A buffer is given and taken back inside launches, too: neither allocates, locks or waits, also when none is left.
static void *buffers(void *unused) {
  static uint8_t *lent[64];
  size_t size, records = 1, count = 0;
  cupti.version = CUPTI_NULL_BUFFER;
  do callbacks_request(&lent[count], &size, &records);
  while (lent[count] != NULL && ++count < 64);
  CHECK_EQUAL(count, 4);
  CHECK(size == 0 && records == 0);
  cupti.version = CUPTI_HWTRACE; // it would crash
  cupti.ActivityGetNextRecord = no_record;
  uint8_t *spare;
  callbacks_request(&spare, &size, &records);
  CHECK(spare != NULL && size == SCRAP_BYTES);
  callbacks_complete(NULL, 0, spare, size, 0);
  for (size_t i = 0; i < count; i++) callbacks_complete(NULL, 0, lent[i], 4096, i);
  CHECK_EQUAL(costs, 0);
  return unused;
}

static void buffers_from_new_thread(void) {
  CHECK(pool_open(4, 4096) && scrap_open());
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, buffers, NULL) == 0);
  pthread_join(thread, NULL);
  CHECK_EQUAL(pool_out(), 4);
  CHECK_EQUAL(pool_waiting(), 0 + 1 + 2 + 3);
  CHECK(pool_completed() != NULL);
}

static void captured_launch(void) {
  cupti_api_data call = {.site = 0, .correlation = 5};
  cupti_graph_data graph = {.node = (void *)0x500000001, .node_type = 0};
  cupti_resource_data resource = {.descriptor = &graph};
  cupti.GetGraphNodeId = graph_node_id;
  callbacks_api(NULL, CUPTI_RESOURCE, CUPTI_NODE_CREATED, &resource); // outside a launch
  callbacks_api(NULL, CUPTI_DRIVER_API, 307, &call);
  callbacks_api(NULL, CUPTI_RESOURCE, CUPTI_NODE_CREATED, &resource);
  call.site = 1;
  callbacks_api(NULL, CUPTI_DRIVER_API, 307, &call);
  const kw_node_created *n = (const void *)next();
  CHECK(n->head.kind == KW_NODE_CREATED && n->flags == 0 && n->node == 0x500000001);
  const kw_launch *l = (const void *)next();
  CHECK(l->head.kind == KW_LAUNCH && l->correlation == 5 && l->flags == 0);
  n = (const void *)next();
  CHECK(n->head.kind == KW_NODE_CREATED && n->flags == KW_NODE_IN_LAUNCH);
  l = (const void *)next();
  CHECK(l->head.kind == KW_CAPTURED && l->correlation == 5);
  graph.original_node = (void *)0x600000002;
  callbacks_api(NULL, CUPTI_RESOURCE, CUPTI_NODE_CLONED, &resource);
  const kw_node_cloned *c = (const void *)next();
  CHECK(c->head.kind == KW_NODE_CLONED && c->original == 0x600000002 && c->clone == 0x500000001);
}

int main(void) {
  for (int i = 1; i < NVTX_SLOTS; i++) {
    core[i] = core2[i] = initialiser;
    core_slots[i] = &core[i];
    core2_slots[i] = &core2[i];
  }
  CHECK_EQUAL(InitializeInjectionNvtx2(get_table), 1);
  CHECK(core[1] == initialiser); // marks are none of ours

  // Before the first context: only what stays open is told later.
  void *nccl = DOMAIN_A("NCCL");
  CHECK(nccl != NULL && DOMAIN_A("NCCL") == nccl);
  CHECK_EQUAL(PUSH_A("outer"), 0);
  CHECK_EQUAL(PUSH_A("gone"), 1);
  CHECK_EQUAL(POP(), 1);
  nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = MESSAGE_ASCII, .message = "collective"};
  CHECK_EQUAL(DOMAIN_PUSH(nccl, &a), 0);
  uint64_t early = START_A("request");
  END(START_A("short"));
  in_thread(leave_open);
  CHECK(events_open(64u << 10));
  calls_live();
  pushed("outer", 0, 1);
  pushed("collective", 1, 1);
  const kw_start *s = (const void *)next();
  CHECK(s->head.kind == KW_START && s->range == early && s->length == 7);
  for (uint32_t i = 11; i <= 70; i++) { // 64 are known in all, and three of them were there before
    char text[32];
    snprintf(text, sizeof text, "leaked.%u", i);
    pushed(text, 0, i);
  }
  pushed("step:early", 0, 71);

  END(early);
  CHECK_EQUAL(next()->kind, KW_END);
  CHECK_EQUAL(PUSH_W(L"\u20ac"), 1);
  pushed("\xe2\x82\xac", 0, 2);
  CHECK_EQUAL(POP(), 1);
  CHECK_EQUAL(POP(), 0);
  popped(0, 1);
  popped(0, 0);
  POP(); // one too many
  popped(0, 0);
  CHECK_EQUAL(DOMAIN_POP(nccl), 0);
  popped(1, 0);

  void *registered = REGISTER_A(nccl, "registered");
  CHECK(registered != NULL && REGISTER_A(NULL, "registered") == registered);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launch_from_new_thread, registered) == 0);
  pthread_join(thread, NULL);
  const kw_push *p = (const void *)next();
  CHECK(p->head.kind == KW_PUSH && p->length == EVENTS_REGISTERED && p->text == 1 && p->depth == 1);
  pushed("inner", 0, 2);
  pushed("\xc3\xa4", 0, 3);
  const kw_launch *l = (const void *)next();
  CHECK(l->head.kind == KW_LAUNCH && l->correlation == 99 && l->flags == KW_LAUNCH_GRAPH);
  popped(0, 2);
  captured_launch();
  in_thread(leave_very_many_open);
  CHECK(pthread_create(&thread, NULL, other_calls, nccl) == 0);
  pthread_join(thread, NULL);
  metered();
  buffers_from_new_thread();

  a.message_type = MESSAGE_REGISTERED;
  a.message = NULL;
  DOMAIN_PUSH(nccl, &a);
  pushed("", 1, 1);
  DOMAIN_PUSH(nccl, NULL);
  pushed("", 1, 2);
  DOMAIN_POP(nccl), DOMAIN_POP(nccl), popped(1, 1), popped(1, 0);

  // While nothing is traced: of what the collector does not want, not even the text is read.
  const char *unreadable = (const char *)8;
  nvtx_attributes nowhere = {.version = 3, .size = sizeof nowhere, .message_type = MESSAGE_ASCII, .message = unreadable};
  mode_set(MODE_OFF, "off");
  asked_ranges(1, 0);
  DOMAIN_PUSH(nccl, NULL); // its first shows that there is the domain
  pushed("", 1, 1);
  CHECK_EQUAL(PUSH_A("step"), 0);
  pushed("step", 0, 1);
  CHECK(PUSH_A(unreadable) == 1 && PUSH_W((const wchar_t *)unreadable) == 2);
  CHECK(((push_ex *)core[CORE_PUSH_EX])(&nowhere) == 3 && DOMAIN_PUSH(nccl, &nowhere) == 1);
  CHECK(POP() == 3 && POP() == 2 && POP() == 1);
  CHECK_EQUAL(ring_used(events_ring()), 0);
  mode_set(MODE_SOFTWARE, "%s", "");
  calls_off();
  PUSH_A("unheard");
  CHECK_EQUAL(ring_used(events_ring()), 0);
  return 0;
}
