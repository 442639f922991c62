// NVTX's payload extension through its slots, as an image of a process sets them up: alone, and before another library; with
// modules and payloads that are not as they should be.
#include "capture/calls.h"
#include "capture/encode.h"
#include "capture/events.h"
#include "capture/names.h"
#include "capture/nvtx_abi.h"
#include "capture/schemas.h"
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int InitializeInjectionNvtxExtension(nvtx_module *module);
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

#define ALL_SLOTS 63

static intptr_t slots[ALL_SLOTS];

#define SCHEMA ((uint64_t (*)(void *, const nvtx_schema *))slots[PAYLOAD_SCHEMA_REGISTER])
#define ENUM ((uint64_t (*)(void *, const nvtx_enum *))slots[PAYLOAD_ENUM_REGISTER])
#define MARK ((void (*)(void *, const nvtx_payload *, size_t))slots[PAYLOAD_MARK])
#define PUSH ((int (*)(void *, const nvtx_payload *, size_t))slots[PAYLOAD_PUSH])
#define POP ((int (*)(void *, const nvtx_payload *, size_t))slots[PAYLOAD_POP])
#define START ((uint64_t (*)(void *, const nvtx_payload *, size_t))slots[PAYLOAD_START])
#define END ((void (*)(void *, uint64_t, const nvtx_payload *, size_t))slots[PAYLOAD_END])

static nvtx_function core2[NVTX_SLOTS];
static nvtx_function *core2_slots[NVTX_SLOTS];

static int module_table(int module, nvtx_function ***table, unsigned int *size) {
  if (module != NVTX_CORE2) return 0;
  for (int i = 1; i < NVTX_SLOTS; i++) core2_slots[i] = &core2[i];
  *table = core2_slots;
  *size = NVTX_SLOTS;
  return 1;
}

static const void *get_table(uint32_t id) {
  static const nvtx_callbacks callbacks = {sizeof callbacks, module_table};
  return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

#define DOMAIN_PUSH ((int (*)(void *, const nvtx_attributes *))core2[CORE2_PUSH_EX])
#define DOMAIN_POP ((int (*)(void *))core2[CORE2_POP])
#define DOMAIN_START ((uint64_t (*)(void *, const nvtx_attributes *))core2[CORE2_START_EX])

static int extension(uint16_t id, uint16_t size, size_t count, intptr_t *functions) {
  static nvtx_segment segment;
  segment = (nvtx_segment){.id = 0, .slots = count, .functions = functions};
  nvtx_module m = {.version = 3, .size = size, .module = id, .compatible = 259, .segments_count = 1, .segments = &segment};
  return InitializeInjectionNvtxExtension(&m);
}

static uint8_t taken[1 << 16];
static size_t at, got;

static const void *next(void) {
  if (at == got) {
    at = 0;
    got = ring_take(events_ring(), taken, sizeof taken);
    CHECK(got > 0);
  }
  const kw_event *e = (const void *)(taken + at);
  at += e->length;
  return e;
}

static void is_push(uint32_t domain, uint32_t depth) {
  const kw_push *e = next();
  CHECK(e->head.kind == KW_PUSH && e->domain == domain && e->depth == depth);
}

static void is_pop(uint32_t domain, uint32_t depth) {
  const kw_pop *e = next();
  CHECK(e->head.kind == KW_POP && e->domain == domain && e->depth == depth);
}

static void is_payload(uint32_t site, uint64_t schema, uint32_t depth, const void *bytes, uint32_t length, uint32_t size) {
  const kw_payload *e = next();
  CHECK_EQUAL(e->head.kind, KW_PAYLOAD);
  CHECK_EQUAL(e->site, site);
  CHECK_EQUAL(e->schema, schema);
  CHECK_EQUAL(e->depth, depth);
  CHECK_EQUAL(e->length, length);
  CHECK_EQUAL(e->size, size);
  CHECK(schemas_event(e->zero)->schema == schema);
  CHECK(length == 0 || memcmp(e + 1, bytes, length) == 0);
}

static void nothing_more(void) { CHECK(at == got && ring_used(events_ring()) == 0); }

static const nvtx_schema_entry entries[] = {
    {.type = 18, .name = "NCCL communicator ID"}, {.type = 5, .name = NULL, .offset = 8, .flags = 2, .detail = 3}};

static nvtx_schema schema_of(uint64_t id, size_t size) {
  return (nvtx_schema){.fields = SCHEMA_TYPE | SCHEMA_ENTRIES | SCHEMA_COUNT | SCHEMA_SIZE | SCHEMA_ID,
                       .type = 1, .entries = entries, .count = 2, .size = size, .id = id};
}

// at_page_end gives bytes that end where nothing can be read any more.
static uint8_t *at_page_end(size_t n) {
  uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  memset(pages, 0x5a, 4096);
  return pages + 4096 - n;
}

static void modules(void) {
  memset(slots, 0, sizeof slots);
  CHECK_EQUAL(InitializeInjectionNvtxExtension(NULL), 0);
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 16, ALL_SLOTS, slots), 0); // too old to have segments
  CHECK_EQUAL(extension(1, 40, ALL_SLOTS, slots), 0);                     // another extension
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 40, ALL_SLOTS, NULL), 1);
  for (int i = 0; i < ALL_SLOTS; i++) CHECK_EQUAL(slots[i], 0);
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 24, 4, slots), 1); // an older one has fewer functions
  CHECK(slots[PAYLOAD_PUSH] != 0 && slots[PAYLOAD_POP] == 0);
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 400, ALL_SLOTS, slots), 1);
  CHECK(slots[PAYLOAD_END] != 0 && slots[PAYLOAD_SLOTS] == 0);
}

// A thread's ranges with payloads neither allocate nor lock.
static void *ranges_of_new_thread(void *nccl) {
  uint64_t data[3] = {0xfeed, 1024, 0};
  nvtx_payload p = {.schema = NVTX_SCHEMA_STATIC + 5, .size = sizeof data, .bytes = data};
  nvtx_attributes a = {.version = 3, .size = sizeof a, .payload_type = NVTX_PAYLOAD_EXTENDED, .reserved = 1, .payload = (uintptr_t)&p,
                       .message_type = MESSAGE_ASCII, .message = "ncclAllReduce"};
  DOMAIN_PUSH(nccl, &a);
  CHECK_EQUAL(PUSH(nccl, &p, 1), 1);
  CHECK_EQUAL(POP(nccl, &p, 1), 1);
  CHECK_EQUAL(DOMAIN_POP(nccl), 0);
  CHECK_EQUAL(costs, 0);
  return NULL;
}

static void ranges(void *nccl) {
  uint64_t data[3] = {0xfeed, 1024, 0};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, ranges_of_new_thread, nccl) == 0);
  pthread_join(thread, NULL);
  is_push(1, 1);
  is_payload(KW_PUSH, NVTX_SCHEMA_STATIC + 5, 1, data, 24, 24);
  is_push(1, 2);
  is_payload(KW_PUSH, NVTX_SCHEMA_STATIC + 5, 2, data, 24, 24);
  is_payload(KW_POP, NVTX_SCHEMA_STATIC + 5, 2, data, 24, 24);
  is_pop(1, 1);
  is_pop(1, 0);

  nvtx_payload two[] = {{NVTX_SCHEMA_STATIC + 5, 24, data}, {NVTX_SCHEMA_STATIC + 6, 8, data}};
  uint64_t range = START(nccl, two, 2);
  const kw_start *s = next();
  CHECK(s->head.kind == KW_START && s->range == range && s->domain == 1);
  is_payload(KW_START, NVTX_SCHEMA_STATIC + 5, KW_DEPTH_UNKNOWN, data, 24, 24);
  is_payload(KW_START, NVTX_SCHEMA_STATIC + 6, KW_DEPTH_UNKNOWN, data, 8, 8);
  END(nccl, range, two, 1);
  is_payload(KW_END, NVTX_SCHEMA_STATIC + 5, KW_DEPTH_UNKNOWN, data, 24, 24);
  CHECK(((const kw_end *)next())->range == range);
  MARK(nccl, two, 1);
  is_payload(KW_SITE_MARK, NVTX_SCHEMA_STATIC + 5, KW_DEPTH_UNKNOWN, data, 24, 24);
  POP(nccl, two, 1); // of nothing: no payload has a range then
  is_pop(1, 0);
  nothing_more();
}

// Whatever a payload says of itself, its range is pushed and popped, and nothing beyond it is read.
static void odd_payloads(void *nccl) {
  const uint8_t *end = at_page_end(16), *big = at_page_end(1000);
  struct {
    nvtx_payload p;
    uint32_t length, size;
    bool sent;
  } cases[] = {
      {{NVTX_SCHEMA_STATIC + 5, 16, end}, 16, 16, true},               // shorter than its schema
      {{NVTX_SCHEMA_STATIC + 6, SIZE_MAX - 1, end + 8}, 8, 8, true},   // a size that cannot be: the schema's is read
      {{NVTX_SCHEMA_STATIC + 6, SIZE_MAX, end + 8}, 8, 8, true},       // as the schema says
      {{NVTX_SCHEMA_STATIC + 7, SIZE_MAX, end}, 0, 0, true},           // which does not
      {{NVTX_SCHEMA_STATIC + 7, 1u << 20, end}, 0, 1u << 20, true},    // nor bounds a large one
      {{NVTX_SCHEMA_STATIC + 7, 1000, big}, KW_MAX_PAYLOAD, 1000, true},
      {{NVTX_SCHEMA_STATIC + 8, SIZE_MAX, big}, KW_MAX_PAYLOAD, KW_MAX_PAYLOAD, true},
      {{NVTX_SCHEMA_STATIC + 5, 24, NULL}, 0, 0, true},
      {{NVTX_SCHEMA_STATIC + 5, 0, (void *)8}, 0, 0, true},
      {{NVTX_SCHEMA_STATIC + 99, 24, (void *)8}, 0, 0, false}, // nobody registered it
      {{18, 8, (void *)8}, 0, 0, false},                       // a plain type
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_EQUAL(PUSH(nccl, &cases[i].p, 1), 0);
    is_push(1, 1);
    if (cases[i].sent) is_payload(KW_PUSH, cases[i].p.schema, 1, cases[i].p.bytes, cases[i].length, cases[i].size);
    CHECK_EQUAL(POP(nccl, &cases[i].p, 1), 0);
    if (cases[i].sent) is_payload(KW_POP, cases[i].p.schema, 1, cases[i].p.bytes, cases[i].length, cases[i].size);
    is_pop(1, 0);
  }
  PUSH(nccl, NULL, 1000), POP(nccl, NULL, SIZE_MAX);
  is_push(1, 1), is_pop(1, 0);
  nvtx_payload many[CALLS_PAYLOADS + 1];
  for (uint32_t i = 0; i <= CALLS_PAYLOADS; i++) many[i] = (nvtx_payload){NVTX_SCHEMA_STATIC + 6, 8, end};
  PUSH(nccl, many, SIZE_MAX);
  is_push(1, 1);
  for (uint32_t i = 0; i < CALLS_PAYLOADS; i++) is_payload(KW_PUSH, NVTX_SCHEMA_STATIC + 6, 1, end, 8, 8);
  POP(nccl, many, 0);
  is_pop(1, 0);
  nothing_more();

  // Event attributes: other payloads are no pointers.
  nvtx_attributes a = {.version = 3, .size = sizeof a, .payload_type = 1, .reserved = 1, .payload = 8};
  uint64_t range = DOMAIN_START(nccl, &a);
  CHECK(((const kw_start *)next())->range == range);
  a.payload_type = NVTX_PAYLOAD_EXTENDED;
  a.reserved = -1;
  DOMAIN_PUSH(nccl, &a), DOMAIN_POP(nccl);
  a.reserved = 1;
  a.size = 40;
  DOMAIN_PUSH(nccl, &a), DOMAIN_POP(nccl);
  for (int i = 0; i < 2; i++) is_push(1, 1), is_pop(1, 0);
  nothing_more();
}

// without_one_field registers layouts of which one field is not given, whatever memory lies there: it counts as nothing.
static void without_one_field(void *nccl) {
  static const uint64_t fields[] = {0, SCHEMA_TYPE, SCHEMA_ENTRIES, SCHEMA_COUNT, SCHEMA_SIZE, SCHEMA_PACK};
  const uint64_t all = SCHEMA_TYPE | SCHEMA_ENTRIES | SCHEMA_COUNT | SCHEMA_SIZE | SCHEMA_PACK | SCHEMA_ID;
  const nvtx_schema_entry entries[] = {{.flags = 1, .type = 5, .name = "one", .detail = 2, .offset = 3}};
  for (uint64_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    nvtx_schema s = {.fields = all & ~fields[i], .type = 1, .entries = entries, .count = 1, .size = 48, .pack = 4, .id = NVTX_SCHEMA_STATIC + 200 + i};
    if (fields[i] == SCHEMA_ENTRIES) s.entries = (void *)8;
    CHECK_EQUAL(SCHEMA(nccl, &s), s.id);
    const kw_schema *e = schemas_event(schemas_find(1, s.id));
    CHECK_EQUAL(e->type, fields[i] == SCHEMA_TYPE ? 0 : 1);
    CHECK_EQUAL(e->size, fields[i] == SCHEMA_SIZE ? 0 : 48);
    CHECK_EQUAL(e->pack, fields[i] == SCHEMA_PACK ? 0 : 4);
    CHECK_EQUAL(e->count, fields[i] == SCHEMA_ENTRIES || fields[i] == SCHEMA_COUNT ? 0 : 1);
    CHECK_EQUAL(e->length, e->count * (sizeof(kw_schema_entry) + 8));
    if (e->count == 0) continue;
    const kw_schema_entry *n = (const void *)(e + 1);
    CHECK(n->type == 5 && n->flags == 1 && n->detail == 2 && n->offset == 3 && n->length == 3 && memcmp(n + 1, "one", 3) == 0);
  }
  static const uint64_t of_enum[] = {0, ENUM_ENTRIES, ENUM_COUNT, ENUM_SIZE};
  const nvtx_enum_entry values[] = {{"Max", 7, 0}};
  for (uint64_t i = 0; i < sizeof of_enum / sizeof *of_enum; i++) {
    nvtx_enum v = {.fields = (ENUM_ENTRIES | ENUM_COUNT | ENUM_SIZE | ENUM_ID) & ~of_enum[i], .entries = values, .count = 1, .size = 4,
                   .id = NVTX_SCHEMA_STATIC + 220 + i};
    if (of_enum[i] == ENUM_ENTRIES) v.entries = (void *)8;
    CHECK_EQUAL(ENUM(nccl, &v), v.id);
    const kw_schema *e = schemas_event(schemas_find(1, v.id));
    CHECK_EQUAL(e->type, KW_SCHEMA_ENUM);
    CHECK_EQUAL(e->size, of_enum[i] == ENUM_SIZE ? 0 : 4);
    CHECK_EQUAL(e->count, of_enum[i] == ENUM_ENTRIES || of_enum[i] == ENUM_COUNT ? 0 : 1);
    if (e->count == 1) CHECK_EQUAL(((const kw_schema_entry *)(const void *)(e + 1))->type, 7);
  }
  // Without an id, and with one that cannot be, the shim gives one.
  nvtx_enum v = {.fields = ENUM_SIZE, .size = 4, .id = NVTX_SCHEMA_STATIC + 230};
  CHECK(ENUM(nccl, &v) > NVTX_SCHEMA_DYNAMIC);
  nvtx_schema s = {.fields = SCHEMA_SIZE | SCHEMA_ID, .size = 4, .id = UINT64_MAX};
  CHECK(SCHEMA(nccl, &s) > NVTX_SCHEMA_DYNAMIC && SCHEMA(nccl, &s) < UINT64_MAX);
}

static void odd_schemas(void *nccl) {
  CHECK_EQUAL(SCHEMA(nccl, NULL), 0);
  CHECK_EQUAL(ENUM(nccl, NULL), 0);
  nvtx_schema s = {.fields = 0, .entries = (void *)8, .count = SIZE_MAX, .id = 77}; // nothing of it is given
  CHECK_EQUAL(SCHEMA(nccl, &s), NVTX_SCHEMA_DYNAMIC + 1);
  CHECK_EQUAL(SCHEMA(nccl, &s), NVTX_SCHEMA_DYNAMIC + 2);
  CHECK(schemas_event(schemas_find(1, NVTX_SCHEMA_DYNAMIC + 2))->length == 0);
  s = schema_of(NVTX_SCHEMA_STATIC + 30, SIZE_MAX);
  s.count = SIZE_MAX; // a count that cannot be is none
  CHECK_EQUAL(SCHEMA(nccl, &s), NVTX_SCHEMA_STATIC + 30);
  const kw_schema *e = schemas_event(schemas_find(1, NVTX_SCHEMA_STATIC + 30));
  CHECK(e->length == 0 && e->size == 0);

  without_one_field(nccl);
  nvtx_enum_entry values[] = {{"Sum", 0, 0}, {"Product", 1, 0}};
  nvtx_enum v = {.fields = ENUM_ENTRIES | ENUM_COUNT | ENUM_SIZE | ENUM_ID, .entries = values, .count = 2, .size = 4, .id = NVTX_SCHEMA_STATIC + 24};
  CHECK_EQUAL(ENUM(nccl, &v), NVTX_SCHEMA_STATIC + 24);
  e = schemas_event(schemas_find(1, NVTX_SCHEMA_STATIC + 24));
  CHECK(e->type == KW_SCHEMA_ENUM && e->size == 4 && e->count == 2 && e->length == 2 * (sizeof(kw_schema_entry) + 8));

  // Entries beyond the bound are counted and left out, whole.
  static nvtx_schema_entry wide[100];
  for (int i = 0; i < 100; i++) wide[i] = (nvtx_schema_entry){.type = 5, .name = "an entry with a rather long name"};
  s = schema_of(NVTX_SCHEMA_STATIC + 31, 400);
  s.entries = wide, s.count = 100;
  SCHEMA(nccl, &s);
  e = schemas_event(schemas_find(1, NVTX_SCHEMA_STATIC + 31));
  CHECK(e->count == 100 && e->length == SCHEMAS_ENTRIES / 72 * 72);

  // Another layout of the same id is kept beside the first; the same one is not.
  uint32_t first = schemas_find(1, NVTX_SCHEMA_STATIC + 5);
  CHECK_EQUAL(schemas_next(first), 0);
  s = schema_of(NVTX_SCHEMA_STATIC + 5, 24);
  SCHEMA(nccl, &s);
  CHECK_EQUAL(schemas_next(first), 0);
  for (size_t i = 1; i < 10; i++) {
    s = schema_of(NVTX_SCHEMA_STATIC + 5, 24 + 8 * i);
    SCHEMA(nccl, &s);
  }
  uint32_t layouts = 0;
  for (uint32_t i = first; i != 0; i = schemas_next(i)) layouts++;
  CHECK_EQUAL(layouts, SCHEMAS_LAYOUTS);
  CHECK_EQUAL(schemas_room(first, 48), 48); // the largest that is kept: 24 + 8 × 3
  CHECK_EQUAL(schemas_room(first, 4000), 48);
  CHECK_EQUAL(schemas_room(first, SIZE_MAX), 24);
  CHECK_EQUAL(schemas_find(0, NVTX_SCHEMA_STATIC + 5), 0); // another domain's

  for (uint64_t i = 0; i < 2 * SCHEMAS_MAX; i++) {
    s = schema_of(NVTX_SCHEMA_STATIC + 1000 + i, 8);
    CHECK_EQUAL(SCHEMA(nccl, &s), NVTX_SCHEMA_STATIC + 1000 + i);
  }
  CHECK(schemas_find(1, NVTX_SCHEMA_STATIC + 1000) != 0);
  CHECK_EQUAL(schemas_find(1, NVTX_SCHEMA_STATIC + 1000 + 2 * SCHEMAS_MAX - 1), 0);
}

// On the wire a schema stands before its first payload, once, and behind its domain and what its entries name.
static void announced(void) {
  static const nvtx_schema_entry named[] = {{.type = NVTX_SCHEMA_STATIC + 24, .name = "op"}, {.type = NVTX_SCHEMA_STATIC + 40, .name = "itself"}};
  nvtx_schema s = schema_of(NVTX_SCHEMA_STATIC + 40, 8);
  s.entries = named;
  nvtx_enum v = {.fields = ENUM_SIZE | ENUM_ID, .size = 4, .id = NVTX_SCHEMA_STATIC + 24};
  CHECK_EQUAL(schemas_add(2, &s, 0), s.id);
  CHECK_EQUAL(schemas_add_enum(2, &v, 0), v.id);
  struct losses losses = {0};
  struct queue q = {.bound = 1 << 20, .losses = &losses};
  struct encoder e = {.queue = &q, .names = {names_registered, names_domain}};
  kw_payload p = {.head = {.kind = KW_PAYLOAD, .length = sizeof p, .thread = 3, .time = 9}, .domain = 2, .schema = s.id, .zero = schemas_find(2, s.id)};
  encode_event(&e, &p.head);
  encode_event(&e, &p.head);
  encode_close(&e);
  static const uint16_t kinds[] = {KW_DOMAIN, KW_SCHEMA, KW_SCHEMA, KW_PAYLOAD, KW_PAYLOAD};
  const uint8_t *event = q.first->bytes + sizeof(kw_frame);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kw_event *is = (const void *)event;
    CHECK_EQUAL(is->kind, kinds[i]);
    CHECK(is->thread == 3 && is->time == 9);
    if (i == 1) CHECK(((const kw_schema *)(const void *)event)->type == KW_SCHEMA_ENUM);
    if (i > 2) CHECK(((const kw_payload *)(const void *)event)->zero == 0);
    event += is->length;
  }
  CHECK(event == q.first->bytes + sizeof(kw_frame) + ((const kw_frame *)(const void *)q.first->bytes)->length);
  encode_free(&e);
  queue_free(&q);
}

static void alone(void) {
  CHECK_EQUAL(InitializeInjectionNvtx2(get_table), 1);
  modules();
  void *nccl = names_add(NAMES_DOMAIN, "NCCL", 4, NULL);
  CHECK(names_add(NAMES_DOMAIN, "second", 6, NULL) != NULL);
  // Before the first context a payload is nothing, but its range is one.
  nvtx_payload early = {NVTX_SCHEMA_STATIC + 5, 24, (void *)8};
  CHECK_EQUAL(PUSH(nccl, &early, 1), 0);
  CHECK_EQUAL(POP(nccl, &early, 1), 0);
  CHECK(events_open(64u << 10));
  calls_live();
  size_t sizes[] = {24, 8, 0, 1000};
  for (uint64_t i = 0; i < 4; i++) {
    nvtx_schema s = schema_of(NVTX_SCHEMA_STATIC + 5 + i, sizes[i]);
    CHECK_EQUAL(SCHEMA(nccl, &s), NVTX_SCHEMA_STATIC + 5 + i);
  }
  const kw_schema *e = schemas_event(schemas_find(1, NVTX_SCHEMA_STATIC + 5));
  CHECK(e->domain == 1 && e->size == 24 && e->count == 2 && e->type == 1 && e->length == 64 + 40);
  const kw_schema_entry *n = (const void *)((const uint8_t *)(e + 1) + 64);
  CHECK(n->type == 5 && n->flags == 2 && n->detail == 3 && n->offset == 8 && n->length == 0);
  ranges(nccl);
  odd_payloads(nccl);
  announced();
  odd_schemas(nccl);
  calls_off();
  PUSH(nccl, &early, 1), POP(nccl, &early, 1), MARK(nccl, &early, 1);
  END(nccl, START(nccl, &early, 1), &early, 1);
  nothing_more();
}

static void chained(void) {
  setenv("KERNHES_NVTX_NEXT", NEXT_LIBRARY, 1);
  CHECK_EQUAL(extension(1, 40, ALL_SLOTS, slots), 7); // another extension is the next library's alone
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 40, ALL_SLOTS, slots), 1);
  intptr_t pushes = slots[PAYLOAD_PUSH];
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 40, ALL_SLOTS, slots), 1); // a second image
  CHECK(slots[PAYLOAD_PUSH] == pushes);
  void *next_library = dlopen(NEXT_LIBRARY, RTLD_NOW);
  const char *noted = dlsym(next_library, "next_noted");
  CHECK(noted != NULL);
  CHECK(events_open(64u << 10));
  calls_live();
  void *ours = names_add(NAMES_DOMAIN, "ours", 4, NULL), *theirs = names_add(NAMES_DOMAIN, "theirs", 6, (void *)0x1234);
  nvtx_schema s = schema_of(0, 8);
  s.fields &= ~(uint64_t)SCHEMA_ID;
  CHECK_EQUAL(SCHEMA(theirs, &s), 0x500000000); // an id that the next library made up is everybody's
  CHECK(schemas_find(2, 0x500000000) != 0);
  uint64_t data = 1;
  nvtx_payload p = {0x500000000, 8, &data};
  CHECK_EQUAL(PUSH(theirs, &p, 1), 41);
  CHECK_EQUAL(POP(theirs, &p, 1), 42);
  CHECK_EQUAL(PUSH(ours, &p, 0), 41);
  CHECK_EQUAL(POP(ours, &p, 0), 42);
  END(theirs, START(theirs, &p, 1), &p, 1); // functions that the next library does not have
  MARK(theirs, &p, 1);
  CHECK(strcmp(noted, "schema domain 2; push domain 1; pop domain 1; push none 0; pop none 0; ") == 0);
}

// An image may use the extension alone: a child of fork then has its own thread's id, not its parent's.
static void forked(void) {
  CHECK_EQUAL(extension(NVTX_EXTENSION_PAYLOAD, 40, ALL_SLOTS, slots), 1);
  CHECK(events_open(64u << 10));
  calls_live();
  PUSH(NULL, NULL, 0);
  CHECK_EQUAL(((const kw_push *)next())->head.thread, getpid());
  pid_t child = fork();
  if (child == 0) {
    PUSH(NULL, NULL, 0);
    _exit(((const kw_push *)next())->head.thread == (uint32_t)getpid() ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void in_child(void (*run)(void)) {
  pid_t child = fork(); // the environment is read once a process
  if (child == 0) {
    run();
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  in_child(forked);
  in_child(alone);
  chained();
  return 0;
}
