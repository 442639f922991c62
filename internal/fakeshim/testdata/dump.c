// Prints what wire.h makes of frames on stdin, a line a thing: what the Go side wrote by hand, read by C.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

static unsigned char body[KW_MAX_BODY] __attribute__((aligned(8)));

static void need(int ok, const char* what) {
  if (!ok) {
    printf("bad %s\n", what);
    exit(1);
  }
}

static uint32_t round8(uint32_t n) { return (n + 7) & ~7u; }

static void event(const unsigned char* at) {
  const kw_event* e = (const void*)at;
  printf("event %u length %u thread %u time %" PRIu64, e->kind, e->length, e->thread, e->time);
  if (e->kind == KW_PUSH) {
    const kw_push* p = (const void*)at;
    need(e->length == round8(sizeof *p + p->length), "length of a push");
    printf(" domain %u text %u depth %u %.*s\n", p->domain, p->text, p->depth, (int)p->length, (const char*)(p + 1));
  } else if (e->kind == KW_POP) {
    const kw_pop* p = (const void*)at;
    printf(" domain %u depth %u\n", p->domain, p->depth);
  } else if (e->kind == KW_START) {
    const kw_start* p = (const void*)at;
    need(e->length == round8(sizeof *p + p->length), "length of a start");
    printf(" range %" PRIu64 " domain %u text %u %.*s\n", p->range, p->domain, p->text, (int)p->length, (const char*)(p + 1));
  } else if (e->kind == KW_END) {
    const kw_end* p = (const void*)at;
    printf(" range %" PRIu64 "\n", p->range);
  } else if (e->kind == KW_LAUNCH || e->kind == KW_CAPTURED) {
    const kw_launch* p = (const void*)at;
    printf(" correlation %u flags %u\n", p->correlation, p->flags);
  } else if (e->kind == KW_NODE_CREATED) {
    const kw_node_created* p = (const void*)at;
    printf(" node %" PRIx64 " flags %u type %u\n", p->node, p->flags, p->type);
  } else if (e->kind == KW_NODE_CLONED) {
    const kw_node_cloned* p = (const void*)at;
    printf(" original %" PRIx64 " clone %" PRIx64 "\n", p->original, p->clone);
  } else if (e->kind == KW_DOMAIN) {
    const kw_domain* p = (const void*)at;
    printf(" domain %u %.*s\n", p->domain, (int)p->length, (const char*)(p + 1));
  } else if (e->kind == KW_SCHEMA) {
    const kw_schema* p = (const void*)at;
    printf(" schema %" PRIx64 " domain %u size %u pack %u count %u type %u", p->schema, p->domain, p->size, p->pack, p->count, p->type);
    const unsigned char* list = (const void*)(p + 1);
    for (uint32_t i = 0; i < p->length;) {
      const kw_schema_entry* n = (const void*)(list + i);
      printf(" [%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.*s]", n->type, n->flags, n->offset, n->detail, (int)n->length, (const char*)(n + 1));
      i += round8(sizeof *n + n->length);
    }
    need(e->length == sizeof *p + p->length, "length of a schema");
    printf("\n");
  } else if (e->kind == KW_PAYLOAD) {
    const kw_payload* p = (const void*)at;
    need(e->length == round8(sizeof *p + p->length), "length of a payload");
    printf(" site %u domain %u depth %u schema %" PRIx64 " size %u", p->site, p->domain, p->depth, p->schema, p->size);
    for (uint32_t i = 0; i < p->length; i++) printf(" %02x", ((const unsigned char*)(p + 1))[i]);
    printf("\n");
  } else {
    need(0, "kind of event");
  }
}

static void read_body(const kw_frame* f) {
  if (f->kind == KW_HELLO) {
    const kw_hello* h = (const void*)body;
    need(h->magic == KW_MAGIC && !h->zero && !h->zero2, "hello");
    printf("hello version %u session %" PRIu64 "\n", h->version, h->session);
    for (uint32_t at = sizeof *h; at < f->length;) {
      kw_pair p;
      memcpy(&p, body + at, sizeof p);
      const char* text = (const char*)body + at + sizeof p;
      printf("pair %.*s=%.*s\n", p.key_length, text, (int)p.value_length, text + p.key_length);
      at += (uint32_t)sizeof p + p.key_length + p.value_length;
    }
  } else if (f->kind == KW_STRINGS) {
    for (uint32_t at = 0; at < f->length;) {
      const kw_string* s = (const void*)(body + at);
      printf("string %u %.*s\n", s->id, (int)s->length, (const char*)(s + 1));
      at += round8(sizeof *s + s->length);
    }
  } else if (f->kind == KW_EVENTS) {
    for (uint32_t at = 0; at < f->length; at += ((const kw_event*)(const void*)(body + at))->length) event(body + at);
  } else if (f->kind == KW_KERNELS) {
    for (const kw_kernel* k = (const void*)body; (const unsigned char*)k < body + f->length; k++)
      printf("kernel %" PRIu64 " %" PRIu64 " node %" PRIx64 " correlation %u name %u stream %u device %u registers %u grid %u %u %u block %u %u %u context %u shared %u %u\n",
             k->start, k->end, k->node, k->correlation, k->name, k->stream, k->device, k->registers, k->grid_x, k->grid_y, k->grid_z,
             k->block_x, k->block_y, k->block_z, k->context, k->shared_static, k->shared_dynamic);
  } else if (f->kind == KW_COPIES) {
    for (const kw_copy* c = (const void*)body; (const unsigned char*)c < body + f->length; c++)
      printf("copy %" PRIu64 " %" PRIu64 " node %" PRIx64 " bytes %" PRIu64 " correlation %u stream %u device %u kind %u %u memory %u %u flags %u context %u\n",
             c->start, c->end, c->node, c->bytes, c->correlation, c->stream, c->device, c->kind, c->copy_kind, c->src_kind, c->dst_kind,
             c->flags, c->context);
  } else if (f->kind == KW_FLUSHED) {
    const kw_flushed* w = (const void*)body;
    printf("flushed %" PRIu64 " now %" PRIu64 " monotonic %" PRIu64 " flags %u\n", w->flushed, w->now, w->monotonic, w->flags);
  } else if (f->kind == KW_LOST) {
    const kw_lost* l = (const void*)body;
    printf("lost %u of %u count %" PRIu64 " from %" PRIu64 " to %" PRIu64 "\n", l->reason, l->what, l->count, l->from, l->to);
  } else if (f->kind == KW_CLOCK) {
    const kw_clock* c = (const void*)body;
    printf("clock %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c->before, c->cupti, c->after, c->monotonic);
  } else if (f->kind == KW_BASE) {
    printf("base %" PRIu64 "\n", ((const kw_base*)(const void*)body)->number);
  } else if (f->kind == KW_BYE) {
    const kw_bye* b = (const void*)body;
    printf("bye %u kernels %" PRIu64 " copies %" PRIu64 "\n", b->reason, b->kernels, b->copies);
  } else {
    need(0, "kind of frame");
  }
}

int main(void) {
  kw_frame f;
  while (fread(&f, sizeof f, 1, stdin) == 1) {
    need(f.length <= KW_MAX_BODY && fread(body, 1, f.length, stdin) == f.length, "length of a frame");
    printf("frame %u number %" PRIu64 "\n", f.kind, f.number);
    read_body(&f);
  }
  return 0;
}
