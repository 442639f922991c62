#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include "extension.h"
#include "nvtx.h"
#include "recording.h"

// NVTX's ABI, as published: tables of function pointers that the injection library fills.
enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3, MODULE_CORE = 1, MODULE_CORE2 = 5, SLOTS = 16 };
enum { CORE_PUSH_EX = 8, CORE_PUSH_A, CORE_PUSH_W, CORE_POP };
enum { CORE2_PUSH_EX = 4, CORE2_POP = 5, CORE2_REGISTER_A = 10, CORE2_CREATE_A = 12, CORE2_INITIALIZE = 15 };
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE, MESSAGE_REGISTERED };

typedef void (*function)(void);
typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} attributes;
_Static_assert(sizeof(attributes) == 48, "nvtxEventAttributes_v2");

static function core[SLOTS], core2[SLOTS];
static function *core_slots[SLOTS + 1], *core2_slots[SLOTS + 1];

static int module_table(int module, function ***table, unsigned *size) {
  if (module != MODULE_CORE && module != MODULE_CORE2) return 0;
  if (table) *table = module == MODULE_CORE ? core_slots : core2_slots;
  if (size) *size = SLOTS;
  return 1;
}

static void set_version(uint32_t version) { (void)version; }

static const void *export_table(uint32_t id) {
  static const struct { size_t size; int (*module_table)(int, function ***, unsigned *); } callbacks = {sizeof callbacks, module_table};
  static const struct { size_t size; uint32_t version, reserved; void (*set)(uint32_t); } versions = {sizeof versions, 3, 0, set_version};
  if (id == EXPORT_CALLBACKS) return &callbacks;
  if (id == EXPORT_VERSION) return &versions;
  return NULL;
}

static void initialise(void) {
  static atomic_flag tried = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&tried)) return;
  for (int i = 1; i < SLOTS; i++) core_slots[i] = &core[i], core2_slots[i] = &core2[i];
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *library = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
  int (*inject)(const void *(*)(uint32_t)) = NULL;
  if (library) *(void **)&inject = dlsym(library, "InitializeInjectionNvtx2");
  if (!inject || !inject(export_table)) {
    // As NVTX does: without a library that wants them, ranges cost nothing and go nowhere.
    memset(core, 0, sizeof core);
    memset(core2, 0, sizeof core2);
    return;
  }
  extension_initialise(library);
  if (core2[CORE2_INITIALIZE]) ((void (*)(const void *))core2[CORE2_INITIALIZE])(NULL);
}

// Domains and their registered strings; only touched by the thread that plays.
typedef struct text { char *text; void *handle; struct text *next; } text;
typedef struct domain { uint32_t id; void *handle; text *texts[256]; struct domain *next; } domain;
static domain *domains;

static domain *find_domain(uint32_t id) {
  domain *d = domains;
  while (d && d->id != id) d = d->next;
  return d;
}

void nvtx_domain(uint32_t id, const char *name, size_t length) {
  initialise();
  if (find_domain(id)) return;
  domain *d = calloc(1, sizeof *d);
  char *copy = strndup(name, length);
  if (!d || !copy) abort();
  d->id = id;
  if (core2[CORE2_CREATE_A]) d->handle = ((void *(*)(const char *))core2[CORE2_CREATE_A])(copy);
  free(copy);
  d->next = domains;
  domains = d;
}

static void *registered(domain *d, const char *s) {
  if (!core2[CORE2_REGISTER_A]) return NULL;
  unsigned hash = 0;
  for (const char *c = s; *c; c++) hash = hash * 31 + (unsigned char)*c;
  text **bucket = &d->texts[hash % 256];
  for (text *t = *bucket; t; t = t->next)
    if (!strcmp(t->text, s)) return t->handle;
  text *t = malloc(sizeof *t);
  if (!t || !(t->text = strdup(s))) abort();
  t->handle = ((void *(*)(void *, const char *))core2[CORE2_REGISTER_A])(d->handle, s);
  t->next = *bucket;
  *bucket = t;
  return t->handle;
}

static attributes message(int type, const void *m) {
  return (attributes){.version = 3, .size = sizeof(attributes), .message_type = type, .message = m};
}

// Engines push in every way there is: PyTorch A, others Ex, a few W. W only for plain ASCII.
static void push_default(const char *s, size_t length) {
  static unsigned turn;
  wchar_t wide[256];
  bool plain = length < 256;
  for (size_t i = 0; plain && i <= length; i++) {
    wide[i] = (wchar_t)(unsigned char)s[i];
    plain = (unsigned char)s[i] < 128;
  }
  function a = core[CORE_PUSH_A], ex = core[CORE_PUSH_EX], w = core[CORE_PUSH_W];
  unsigned way = turn++ % 8;
  if (w && plain && way == 7) {
    ((int (*)(const wchar_t *))w)(wide);
  } else if (ex && plain && way == 5) {
    attributes m = message(MESSAGE_UNICODE, wide);
    ((int (*)(const attributes *))ex)(&m);
  } else if (ex && (!a || way % 2)) {
    attributes m = message(MESSAGE_ASCII, s);
    ((int (*)(const attributes *))ex)(&m);
  } else if (a) {
    ((int (*)(const char *))a)(s);
  }
}

// What this thread has open, by domain; of domains past the table it is not known.
enum { OPEN = 64 };
static _Thread_local struct { uint32_t domain, depth; } open_ranges[OPEN];
static _Thread_local uint32_t n_open;

static uint32_t *open_depth(uint32_t id) {
  static _Thread_local uint32_t beyond;
  uint32_t i = 0;
  while (i < n_open && open_ranges[i].domain != id) i++;
  if (i == OPEN) return &beyond;
  if (i == n_open) open_ranges[n_open++].domain = id;
  return &open_ranges[i].depth;
}

// push_payload pushes what a payload came with, if the library wants it: by the extension's own function the range has no text.
static bool push_payload(domain *d, const char *s, const uint8_t *payload) {
  void *handle = d ? d->handle : NULL;
  extension_data data = extension_payload(payload);
  if (get32(payload, 8)) return extension_push(handle, &data);
  void *handle_of_text = d ? registered(d, s) : NULL;
  attributes m = handle_of_text ? message(MESSAGE_REGISTERED, handle_of_text) : message(MESSAGE_ASCII, s);
  m.payload_type = (int32_t)PAYLOAD_EXTENDED, m.reserved = 1, m.payload = (uint64_t)(uintptr_t)&data;
  if (d && core2[CORE2_PUSH_EX]) ((int (*)(void *, const attributes *))core2[CORE2_PUSH_EX])(handle, &m);
  else if (!d && core[CORE_PUSH_EX]) ((int (*)(const attributes *))core[CORE_PUSH_EX])(&m);
  return true;
}

void nvtx_schema(const uint8_t *body, size_t length) {
  initialise();
  domain *d = find_domain(get32(body, 8));
  extension_register(d ? d->handle : NULL, body, length);
}

void nvtx_push(uint32_t id, const char *bytes, size_t length, const uint8_t *payload) {
  initialise();
  if (id && !find_domain(id)) nvtx_domain(id, "unnamed", 7); // created before the recording began
  ++*open_depth(id);
  char *s = strndup(bytes, length);
  if (!s) abort();
  domain *d = id ? find_domain(id) : NULL;
  if (payload && push_payload(d, s, payload)) {
    // done
  } else if (!id) {
    push_default(s, strlen(s));
  } else if (d && core2[CORE2_PUSH_EX]) {
    void *handle = registered(d, s);
    attributes m = handle ? message(MESSAGE_REGISTERED, handle) : message(MESSAGE_ASCII, s);
    ((int (*)(void *, const attributes *))core2[CORE2_PUSH_EX])(d->handle, &m);
  }
  free(s);
}

void nvtx_pop(uint32_t id, const uint8_t *payload) {
  initialise();
  uint32_t *depth = open_depth(id);
  if (*depth) --*depth;
  domain *d = id ? find_domain(id) : NULL;
  if (payload) { // a library without the extension never hears of the pop, as in an engine
    extension_data data = extension_payload(payload);
    extension_pop(d ? d->handle : NULL, &data);
    return;
  }
  if (!id && core[CORE_POP]) ((int (*)(void))core[CORE_POP])();
  if (d && core2[CORE2_POP]) ((int (*)(void *))core2[CORE2_POP])(d->handle);
}

void nvtx_unwind(void) {
  for (uint32_t i = 0; i < n_open; i++)
    while (open_ranges[i].depth) nvtx_pop(open_ranges[i].domain, NULL);
}
