#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "extension.h"
#include "recording.h"

// The extension's ABI, as published.
enum { MODULE_PAYLOAD = 2, COMPATIBLE = 259, SLOTS = 63, SCHEMA_REGISTER = 0, ENUM_REGISTER = 1, PUSH_SLOT = 3, POP_SLOT = 4, ENUM = 0x80 };
typedef struct { size_t id, slots; intptr_t *functions; } segment;
typedef struct {
  uint16_t version, size, module, compatible;
  size_t segments_count;
  segment *segments;
  void *export_function;
  const void *types;
} module_info;
typedef struct { uint64_t flags, type; const char *name, *description; uint64_t detail, offset; const void *semantics, *reserved; } entry;
typedef struct {
  uint64_t mask;
  const char *name;
  uint64_t type, flags;
  const entry *entries;
  size_t count, size, pack;
  uint64_t id;
  void *extension;
} schema_attributes;
typedef struct { const char *name; uint64_t value; int8_t flag; } enum_entry;
typedef struct {
  uint64_t mask;
  const char *name;
  const enum_entry *entries;
  size_t count, size;
  uint64_t id;
  void *extension;
} enum_attributes;
_Static_assert(sizeof(module_info) == 40 && sizeof(entry) == 64 && sizeof(schema_attributes) == 80 && sizeof(enum_attributes) == 56,
               "NVTX's payload extension");

static intptr_t slots[SLOTS];

void extension_initialise(void *library) {
  int (*inject)(module_info *) = NULL;
  *(void **)&inject = dlsym(library, "InitializeInjectionNvtxExtension");
  segment s = {.slots = SLOTS, .functions = slots}; // both live no longer than the call
  module_info m = {.version = 3, .size = sizeof m, .module = MODULE_PAYLOAD, .compatible = COMPATIBLE, .segments_count = 1, .segments = &s};
  if (!inject || !inject(&m)) memset(slots, 0, sizeof slots);
}

extension_data extension_payload(const uint8_t *payload) {
  return (extension_data){get64(payload, 0), get32(payload, 12), payload + 16};
}

bool extension_push(void *domain, const extension_data *data) {
  if (slots[PUSH_SLOT]) ((int (*)(void *, const extension_data *, size_t))slots[PUSH_SLOT])(domain, data, 1);
  return slots[PUSH_SLOT] != 0;
}

bool extension_pop(void *domain, const extension_data *data) {
  if (slots[POP_SLOT]) ((int (*)(void *, const extension_data *, size_t))slots[POP_SLOT])(domain, data, 1);
  return slots[POP_SLOT] != 0;
}

enum { ENTRY = 40, ENTRIES = 64 };

// read_entries gives the entries of a body; their names are to be freed.
static size_t read_entries(const uint8_t *body, size_t length, entry *to) {
  size_t n = 0;
  for (size_t at = 24; n < ENTRIES && length - at >= ENTRY; n++) {
    const uint8_t *b = body + at;
    size_t name = get32(b, 32);
    if (name > length - at - ENTRY) break;
    to[n] = (entry){.type = get64(b, 0), .flags = get64(b, 8), .offset = get64(b, 16), .detail = get64(b, 24),
                    .name = strndup((const char *)b + ENTRY, name)};
    if (!to[n].name) abort();
    at += ENTRY + name;
  }
  return n;
}

// A library copies what it needs of a schema, so all of it goes again.
void extension_register(void *domain, const uint8_t *body, size_t length) {
  entry entries[ENTRIES];
  enum_entry values[ENTRIES];
  size_t n = read_entries(body, length, entries);
  for (size_t i = 0; i < n; i++) values[i] = (enum_entry){entries[i].name, entries[i].type, 0};
  uint64_t id = get64(body, 0);
  uint32_t size = get32(body, 12), pack = get32(body, 16), type = get32(body, 20);
  if (type == ENUM && slots[ENUM_REGISTER]) {
    enum_attributes a = {.mask = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5, .entries = values, .count = n, .size = size, .id = id};
    ((uint64_t (*)(void *, const enum_attributes *))slots[ENUM_REGISTER])(domain, &a);
  } else if (type != ENUM && slots[SCHEMA_REGISTER]) {
    schema_attributes a = {.mask = 1 << 2 | 1 << 4 | 1 << 5 | (size ? 1 << 6 : 0) | (pack ? 1 << 7 : 0) | 1 << 8, .type = type,
                           .entries = entries, .count = n, .size = size, .pack = pack, .id = id};
    ((uint64_t (*)(void *, const schema_attributes *))slots[SCHEMA_REGISTER])(domain, &a);
  }
  for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)entries[i].name);
}
