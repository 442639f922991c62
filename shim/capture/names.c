// Names. Our own handle of an entry is its address in one static table, so that it needs no look-up;
// handles of a chained library are found in a hash table that is only ever added to.
#include "capture/names.h"

#include "transport/bytes.h"

#include <pthread.h>
#include <stdatomic.h>

#define SLOTS (2u * (NAMES_TEXTS + NAMES_DOMAINS))

// An entry is read by other threads only after its handle was given out, or an event that names it was.
struct entry {
  char *text;
  uint32_t length;
};

static struct entry domains[NAMES_DOMAINS];
static struct entry texts[NAMES_TEXTS];
static uint32_t counts[2] = {1, 1}; // index 0 stands for none
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t by_name[2][2 * NAMES_TEXTS]; // indexes; 0: free

static struct {
  _Atomic(const void *) handle;
  uint32_t index; // written before handle
} theirs_to_ours[2][SLOTS];

static struct entry *table(enum names_kind kind) { return kind == NAMES_DOMAIN ? domains : texts; }
static uint32_t room(enum names_kind kind) { return kind == NAMES_DOMAIN ? NAMES_DOMAINS : NAMES_TEXTS; }

// find_or_add gives the index of a name; 0 if it does not fit. Under the lock.
static uint32_t find_or_add(enum names_kind kind, const char *name, uint32_t length) {
  struct entry *entries = table(kind);
  uint32_t *slot;
  for (uint64_t i = hash_bytes(name, length);; i++) {
    slot = &by_name[kind][i % (2 * NAMES_TEXTS)];
    if (*slot == 0) break;
    const struct entry *e = &entries[*slot];
    if (e->length == length && memcmp(e->text, name, length) == 0) return *slot;
  }
  // Domains that come too late share the last one, rather than fall into the default domain; texts are empty.
  if (counts[kind] == room(kind)) return kind == NAMES_DOMAIN ? NAMES_DOMAINS - 1 : 0;
  char *copy = malloc(length + 1u);
  if (copy == NULL) return 0;
  memcpy(copy, name, length);
  copy[length] = 0;
  entries[counts[kind]] = (struct entry){.text = copy, .length = length};
  *slot = counts[kind]++;
  return *slot;
}

static void remember(enum names_kind kind, const void *handle, uint32_t index) {
  uint64_t i = hash_mix((uintptr_t)handle);
  for (uint32_t tries = 0; tries < SLOTS; tries++, i++) {
    const void *is = atomic_load(&theirs_to_ours[kind][i % SLOTS].handle);
    if (is == handle) return;
    if (is != NULL) continue;
    theirs_to_ours[kind][i % SLOTS].index = index;
    atomic_store_explicit(&theirs_to_ours[kind][i % SLOTS].handle, handle, memory_order_release);
    return;
  }
}

void *names_add(enum names_kind kind, const char *name, uint32_t length, void *theirs) {
  pthread_mutex_lock(&lock);
  uint32_t index = find_or_add(kind, name, length);
  if (theirs != NULL && index != 0) remember(kind, theirs, index);
  pthread_mutex_unlock(&lock);
  if (theirs != NULL) return theirs;
  return index == 0 ? NULL : &table(kind)[index];
}

static bool is_in(const void *handle, const struct entry *entries, size_t bytes) {
  return (uintptr_t)handle - (uintptr_t)entries < bytes;
}

uint32_t names_index(enum names_kind kind, const void *handle) {
  if (handle == NULL) return 0;
  const struct entry *entries = table(kind);
  if (is_in(handle, entries, room(kind) * sizeof *entries)) return (uint32_t)((const struct entry *)handle - entries);
  uint64_t i = hash_mix((uintptr_t)handle);
  for (uint32_t tries = 0; tries < SLOTS; tries++, i++) {
    const void *is = atomic_load_explicit(&theirs_to_ours[kind][i % SLOTS].handle, memory_order_acquire);
    if (is == handle) return theirs_to_ours[kind][i % SLOTS].index;
    if (is == NULL) return 0;
  }
  return 0;
}

void *names_theirs(const void *handle) {
  if (is_in(handle, domains, sizeof domains) || is_in(handle, texts, sizeof texts)) return NULL;
  return (void *)(uintptr_t)handle;
}

static struct interned of(const struct entry *e) {
  return (struct interned){.bytes = (const uint8_t *)e->text, .length = e->length};
}

struct interned names_domain(uint32_t index) {
  return index < NAMES_DOMAINS ? of(&domains[index]) : (struct interned){0};
}

struct interned names_registered(uint32_t index) {
  return index < NAMES_TEXTS ? of(&texts[index]) : (struct interned){0};
}
