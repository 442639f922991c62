// NVTX's payload extension: its slots, and the entry that fills them. What a library that KERNHES_NVTX_NEXT names put there is
// called too.
#include "capture/calls.h"
#include "capture/names.h"
#include "capture/schemas.h"
#include "entry/main.h"
#include "entry/nvtx.h"
#include "host/env.h"

#include <pthread.h>

static intptr_t next_slots[PAYLOAD_SLOTS]; // the next library's functions; 0 where it has none

#define NEXT(slot, type) ((type *)next_slots[slot])

typedef uint64_t register_schema_fn(void *, const nvtx_schema *);
typedef uint64_t register_enum_fn(void *, const nvtx_enum *);
typedef void mark_fn(void *, const nvtx_payload *, size_t);
typedef int push_fn(void *, const nvtx_payload *, size_t);
typedef uint64_t start_fn(void *, const nvtx_payload *, size_t);
typedef void end_fn(void *, uint64_t, const nvtx_payload *, size_t);

static uint32_t domain_of(const void *handle) { return names_index(NAMES_DOMAIN, handle); }

static uint64_t register_schema(void *domain, const nvtx_schema *schema) {
  register_schema_fn *next = NEXT(PAYLOAD_SCHEMA_REGISTER, register_schema_fn);
  return schemas_add(domain_of(domain), schema, next != NULL ? next(names_theirs(domain), schema) : 0);
}

static uint64_t register_enum(void *domain, const nvtx_enum *values) {
  register_enum_fn *next = NEXT(PAYLOAD_ENUM_REGISTER, register_enum_fn);
  return schemas_add_enum(domain_of(domain), values, next != NULL ? next(names_theirs(domain), values) : 0);
}

static void mark(void *domain, const nvtx_payload *data, size_t count) {
  calls_mark(domain_of(domain), (struct payloads){data, count});
  mark_fn *next = NEXT(PAYLOAD_MARK, mark_fn);
  if (next != NULL) next(names_theirs(domain), data, count);
}

// no_text is that of a range which has only payloads, if it goes anywhere.
static struct text no_text(uint32_t domain, bool push) { return (struct text){.bytes = calls_hears(domain, push) ? "" : NULL}; }

static int push(void *domain, const nvtx_payload *data, size_t count) {
  uint32_t index = domain_of(domain);
  int level = calls_push(index, no_text(index, true), (struct payloads){data, count});
  push_fn *next = NEXT(PAYLOAD_PUSH, push_fn);
  return next != NULL ? next(names_theirs(domain), data, count) : level;
}

static int pop(void *domain, const nvtx_payload *data, size_t count) {
  int level = calls_pop(domain_of(domain), (struct payloads){data, count});
  push_fn *next = NEXT(PAYLOAD_POP, push_fn);
  return next != NULL ? next(names_theirs(domain), data, count) : level;
}

static uint64_t start(void *domain, const nvtx_payload *data, size_t count) {
  start_fn *next = NEXT(PAYLOAD_START, start_fn);
  uint64_t theirs = next != NULL ? next(names_theirs(domain), data, count) : 0;
  uint32_t index = domain_of(domain);
  return calls_start(theirs, index, no_text(index, false), (struct payloads){data, count});
}

static void end(void *domain, uint64_t range, const nvtx_payload *data, size_t count) {
  calls_end(range, domain_of(domain), (struct payloads){data, count});
  end_fn *next = NEXT(PAYLOAD_END, end_fn);
  if (next != NULL) next(names_theirs(domain), range, data, count);
}

static int call_next(nvtx_module *module) {
  int (*initialize)(nvtx_module *) = (int (*)(nvtx_module *))nvtx_next("InitializeInjectionNvtxExtension", false);
  return initialize != NULL ? initialize(module) : 0;
}

// InitializeInjectionNvtxExtension is called by NVTX in each image that uses an extension, once a module; it returns 1 for
// success. Slots that nobody fills do nothing.
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtx_module *module) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // images may come to it at once
  const intptr_t ours[PAYLOAD_SLOTS] = {
      [PAYLOAD_SCHEMA_REGISTER] = (intptr_t)register_schema, [PAYLOAD_ENUM_REGISTER] = (intptr_t)register_enum,
      [PAYLOAD_MARK] = (intptr_t)mark, [PAYLOAD_PUSH] = (intptr_t)push, [PAYLOAD_POP] = (intptr_t)pop,
      [PAYLOAD_START] = (intptr_t)start, [PAYLOAD_END] = (intptr_t)end,
  };
  env_load();
  main_watch_forks();
  if (module == NULL || module->size < offsetof(nvtx_module, segments) + sizeof module->segments) return 0;
  bool mine = module->module == NVTX_EXTENSION_PAYLOAD && module->segments_count > 0 && module->segments != NULL;
  if (!mine) return call_next(module);
  const nvtx_segment *s = &module->segments[0];
  size_t slots = s->functions == NULL ? 0 : s->slots < PAYLOAD_SLOTS ? s->slots : PAYLOAD_SLOTS;
  intptr_t before[PAYLOAD_SLOTS];
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < slots; i++) before[i] = s->functions[i];
  call_next(module);
  for (size_t i = 0; i < slots; i++) {
    if (s->functions[i] != before[i] && s->functions[i] != ours[i]) next_slots[i] = s->functions[i];
    s->functions[i] = ours[i];
  }
  pthread_mutex_unlock(&lock);
  return 1;
}
