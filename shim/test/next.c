// A library that KERNHES_NVTX_NEXT may name: it takes some functions of the payload extension, and notes what it is called with.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "capture/nvtx_abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT char next_noted[1000];

static void note(const char *what, const void *domain, size_t count) {
  sprintf(next_noted + strlen(next_noted), "%s %s %zu; ", what, domain == NULL ? "none" : "domain", count);
}

static uint64_t schema(void *domain, const nvtx_schema *s) {
  note("schema", domain, s->count);
  return s->fields & SCHEMA_ID ? s->id : 0x500000000;
}

static int push(void *domain, const nvtx_payload *p, size_t count) {
  (void)p;
  note("push", domain, count);
  return 41;
}

static int pop(void *domain, const nvtx_payload *p, size_t count) {
  (void)p;
  note("pop", domain, count);
  return 42;
}

EXPORT int InitializeInjectionNvtxExtension(nvtx_module *m) {
  if (m->module != NVTX_EXTENSION_PAYLOAD) return 7;
  m->segments[0].functions[PAYLOAD_SCHEMA_REGISTER] = (intptr_t)schema;
  m->segments[0].functions[PAYLOAD_PUSH] = (intptr_t)push;
  m->segments[0].functions[PAYLOAD_POP] = (intptr_t)pop;
  return 1;
}

EXPORT int InitializeInjectionNvtx2(nvtx_get_table get) {
  (void)get;
  return 1;
}
