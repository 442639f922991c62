// Schemas. An entry is written whole before its index is stored where others find it.
#include "capture/schemas.h"

#include "transport/bytes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SLOTS (2u * SCHEMAS_MAX)
#define ENTRIES_MAX 4096u   // of a registration; more are not believed
#define NAME_MAX_BYTES 256u
#define BLIND_MAX 4096u     // bytes of a payload whose schema gives no size; more are not believed

struct layout {
  kw_schema *event;
  _Atomic uint32_t next;
};

static struct layout layouts[SCHEMAS_MAX + 1]; // by index, from 1
static uint32_t count;
static _Atomic uint32_t slots[SLOTS]; // indexes of first layouts; 0: free
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t given; // ids that were made up

static uint64_t hash(uint32_t domain, uint64_t id) { return hash_mix(id ^ (uint64_t)domain << 40); }

uint32_t schemas_find(uint32_t domain, uint64_t id) {
  uint64_t at = hash(domain, id);
  for (uint32_t tries = 0; tries < SLOTS; tries++, at++) {
    uint32_t index = atomic_load_explicit(&slots[at % SLOTS], memory_order_acquire);
    if (index == 0) return 0;
    const kw_schema *e = layouts[index].event;
    if (e->schema == id && e->domain == domain) return index;
  }
  return 0;
}

uint32_t schemas_next(uint32_t index) { return atomic_load_explicit(&layouts[index].next, memory_order_acquire); }
const kw_schema *schemas_event(uint32_t index) { return layouts[index].event; }

uint32_t schemas_room(uint32_t index, size_t size) {
  uint32_t least = UINT32_MAX, most = 0;
  for (; index != 0; index = schemas_next(index)) {
    uint32_t fixed = layouts[index].event->size;
    if (fixed < least) least = fixed;
    if (fixed > most) most = fixed;
  }
  if (size == SIZE_MAX) size = least; // as the schema says, if it does
  else if (least == 0) most = size <= BLIND_MAX ? (uint32_t)size : 0;
  if (size > most) size = most;
  return size < KW_MAX_PAYLOAD ? (uint32_t)size : KW_MAX_PAYLOAD;
}

static bool same(const kw_schema *a, const kw_schema *b) {
  return a->length == b->length && memcmp(a, b, sizeof *a + a->length) == 0;
}

// place finds where an event goes: behind the last layout of its id, or 0 if there is none; false if it is known already, or
// there are too many.
static bool place(const kw_schema *event, uint32_t *last) {
  uint32_t known = 0;
  *last = 0;
  for (uint32_t i = schemas_find(event->domain, event->schema); i != 0; i = schemas_next(i)) {
    if (same(layouts[i].event, event)) return false;
    *last = i;
    known++;
  }
  return count < SCHEMAS_MAX && known < SCHEMAS_LAYOUTS;
}

// keep takes an event that was made with malloc, if it is to be kept. Under the lock.
static void keep(kw_schema *event) {
  uint32_t last;
  if (!place(event, &last)) {
    free(event);
    return;
  }
  layouts[++count].event = event;
  if (last != 0) {
    atomic_store_explicit(&layouts[last].next, count, memory_order_release);
    return;
  }
  uint64_t at = hash(event->domain, event->schema);
  while (atomic_load(&slots[at % SLOTS]) != 0) at++; // there are more slots than schemas
  atomic_store_explicit(&slots[at % SLOTS], count, memory_order_release);
}

// A making is a SCHEMA event that is being made.
struct making {
  kw_schema head;
  uint8_t entries[SCHEMAS_ENTRIES];
};

static void add_entry(struct making *m, kw_schema_entry entry, const char *name) {
  m->head.count++;
  entry.length = name == NULL ? 0 : (uint32_t)strnlen(name, NAME_MAX_BYTES);
  uint32_t bytes = (uint32_t)sizeof entry + ((entry.length + 7u) & ~7u);
  if (m->head.length + bytes > sizeof m->entries) return;
  memset(m->entries + m->head.length, 0, bytes);
  memcpy(m->entries + m->head.length, &entry, sizeof entry);
  if (entry.length > 0) memcpy(m->entries + m->head.length + sizeof entry, name, entry.length);
  m->head.length += bytes;
}

static uint32_t bounded(size_t n) { return n < UINT32_MAX ? (uint32_t)n : 0; }

// add gives the schema its id and keeps it.
static uint64_t add(struct making *m, uint64_t id, uint64_t theirs) {
  kw_schema *event = malloc(sizeof m->head + m->head.length);
  pthread_mutex_lock(&lock);
  if (id == 0) id = theirs;
  if (id == 0 || id == UINT64_MAX) id = NVTX_SCHEMA_DYNAMIC + ++given;
  m->head.schema = id;
  m->head.head.kind = KW_SCHEMA;
  if (event != NULL) {
    memcpy(event, m, sizeof m->head + m->head.length);
    keep(event);
  }
  pthread_mutex_unlock(&lock);
  return id;
}

uint64_t schemas_add(uint32_t domain, const nvtx_schema *s, uint64_t theirs) {
  if (s == NULL) return theirs;
  struct making m = {.head = {.domain = domain}};
  if (s->fields & SCHEMA_TYPE) m.head.type = bounded(s->type);
  if (s->fields & SCHEMA_SIZE && m.head.type != SCHEMA_TYPE_DYNAMIC) m.head.size = bounded(s->size);
  if (s->fields & SCHEMA_PACK) m.head.pack = bounded(s->pack);
  size_t n = s->fields & SCHEMA_ENTRIES && s->fields & SCHEMA_COUNT && s->entries != NULL ? s->count : 0;
  for (size_t i = 0; n <= ENTRIES_MAX && i < n; i++) {
    const nvtx_schema_entry *e = &s->entries[i];
    add_entry(&m, (kw_schema_entry){.type = e->type, .flags = e->flags, .offset = e->offset, .detail = e->detail}, e->name);
  }
  return add(&m, s->fields & SCHEMA_ID ? s->id : 0, theirs);
}

uint64_t schemas_add_enum(uint32_t domain, const nvtx_enum *v, uint64_t theirs) {
  if (v == NULL) return theirs;
  struct making m = {.head = {.domain = domain, .type = KW_SCHEMA_ENUM}};
  if (v->fields & ENUM_SIZE) m.head.size = bounded(v->size);
  size_t n = v->fields & ENUM_ENTRIES && v->fields & ENUM_COUNT && v->entries != NULL ? v->count : 0;
  for (size_t i = 0; n <= ENTRIES_MAX && i < n; i++) add_entry(&m, (kw_schema_entry){.type = v->entries[i].value}, v->entries[i].name);
  return add(&m, v->fields & ENUM_ID ? v->id : 0, theirs);
}
