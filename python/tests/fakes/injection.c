// A stand-in for libkernhes.so: it writes down what NVTX's functions are told, a line each.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char told[1 << 20];
static size_t length;

const char *fake_told(void) { return told; }
void fake_clear(void) { told[length = 0] = 0; }

static void tell(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(told + length, sizeof told - length, format, arguments);
  va_end(arguments);
  if (n > 0 && length + (size_t)n < sizeof told) length += (size_t)n;
}

typedef void (*function)(void);
typedef struct {
  size_t size;
  int (*module_table)(int, function ***, unsigned *);
} callbacks;

static int push(const char *text) { return tell("push %s\n", text), 0; }
static int pop(void) { return tell("pop\n"), 0; }
static char domain;
static void *create(const char *name) { return tell("domain %s\n", name), &domain; }

int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
  const callbacks *c = get(1);
  function **core, **core2;
  unsigned slots;
  if (c == NULL || get(3) != NULL || c->size != sizeof *c || !c->module_table(1, &core, &slots) || slots != 16) return 0;
  if (!c->module_table(5, &core2, &slots) || slots != 16 || c->module_table(3, &core2, &slots)) return 0;
  c->module_table(5, &core2, &slots);
  *core[9] = (function)push;
  *core[11] = (function)pop;
  *core2[12] = (function)create;
  return 1;
}

typedef struct {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t detail, offset;
  const void *semantics, *reserved;
} entry;

typedef struct {
  uint64_t fields;
  const char *name;
  uint64_t type, flags;
  const entry *entries;
  size_t count, size, pack;
  uint64_t id;
} schema;

typedef struct {
  uint64_t schema;
  size_t size;
  const uint8_t *bytes;
} payload;

static uint64_t register_schema(void *of, const schema *s) {
  if (of != &domain) return 0;
  tell("schema %s id=%llu type=%llu size=%zu", s->name, (unsigned long long)s->id, (unsigned long long)s->type, s->fields & 64 ? s->size : 0);
  for (size_t i = 0; i < s->count; i++) {
    tell(" %s:%llu@%llu", s->entries[i].name, (unsigned long long)s->entries[i].type, (unsigned long long)s->entries[i].offset);
  }
  tell("\n");
  return s->id;
}

static void mark(void *of, const payload *p, size_t count) {
  if (of != &domain || count != 1) return;
  tell("mark %llu ", (unsigned long long)p->schema);
  for (size_t i = 0; i < p->size; i++) tell("%02x", p->bytes[i]);
  tell("\n");
}

typedef struct {
  size_t id, slots;
  intptr_t *functions;
} segment;

typedef struct {
  uint16_t version, size, module, compatible;
  size_t count;
  segment *segments;
  const void *table;
  const uint16_t *types;
} module;

int InitializeInjectionNvtxExtension(module *m) {
  // The sizes that NVTX gives of int, size_t and pointers, by type.
  if (m->size != 40 || m->module != 2 || m->count != 1 || m->types[0] != 28 || m->types[2 * 5] != 4 || m->types[2 * 22] != 8) return 0;
  m->segments[0].functions[0] = (intptr_t)register_schema;
  m->segments[0].functions[2] = (intptr_t)mark;
  return 1;
}
