// NVTX's tables: the functions that engines call, and the entry that installs them. Texts become UTF-8.
// A library that KERNHES_NVTX_NEXT names is called too, with its own handles, and what it returns is returned.
#include "entry/nvtx.h"

#include "capture/calls.h"
#include "capture/names.h"
#include "entry/main.h"
#include "entry/utf8.h"
#include "host/env.h"
#include "host/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

// The next library's functions; NULL where it has none.
static nvtx_function next_core[NVTX_SLOTS], next_core2[NVTX_SLOTS];

#define NEXT(table, slot, type) ((type)next_##table[slot])

// A spelled text: the bytes of a wide one are converted here, on the caller's stack.
struct spelled {
  struct text text;
  char wide[KW_MAX_TEXT];
};

static void spell(struct spelled *s, int type, const void *message) {
  s->text = (struct text){.bytes = ""};
  if (message == NULL) return;
  if (type == MESSAGE_ASCII) {
    s->text.bytes = message;
    s->text.length = (uint32_t)strnlen(message, 2 * KW_MAX_TEXT); // longer than the bound shows as cut
  } else if (type == MESSAGE_UNICODE) {
    s->text.bytes = s->wide;
    s->text.length = utf8_from_wide(message, s->wide, sizeof s->wide);
  } else if (type == MESSAGE_REGISTERED) {
    s->text.registered = names_index(NAMES_TEXT, message);
  }
}

static void spell_attributes(struct spelled *s, const nvtx_attributes *a) {
  if (a != NULL && a->size >= sizeof *a) spell(s, a->message_type, a->message);
  else spell(s, MESSAGE_NONE, NULL);
}

// range_text spells the text of a range that is pushed (else started), if it goes anywhere.
static void range_text(struct spelled *s, uint32_t domain, bool push, int type, const void *message) {
  if (calls_hears(domain, push)) spell(s, type, message);
  else s->text = (struct text){0};
}

static void range_attributes(struct spelled *s, uint32_t domain, bool push, const nvtx_attributes *a) {
  if (calls_hears(domain, push)) spell_attributes(s, a);
  else s->text = (struct text){0};
}

static const struct payloads nothing;

// payloads_of gives what hangs on the attributes of an ordinary range.
static struct payloads payloads_of(const nvtx_attributes *a) {
  if (a == NULL || a->size < sizeof *a || a->payload_type != NVTX_PAYLOAD_EXTENDED || a->reserved <= 0) return nothing;
  return (struct payloads){.data = (const nvtx_payload *)(uintptr_t)a->payload, .count = (size_t)a->reserved};
}

// for_next gives attributes that the next library understands: a registered string of ours is none to it.
static const nvtx_attributes *for_next(const nvtx_attributes *a, nvtx_attributes *copy) {
  if (a == NULL || a->size < sizeof *a || a->message_type != MESSAGE_REGISTERED) return a;
  if (names_theirs(a->message) == a->message) return a;
  *copy = *a;
  copy->size = sizeof *copy;
  copy->message_type = MESSAGE_NONE;
  copy->message = NULL;
  return copy;
}

typedef int push_text_fn(const void *);
typedef int push_ex_fn(const nvtx_attributes *);
typedef int pop_fn(void);
typedef uint64_t start_text_fn(const void *);
typedef uint64_t start_ex_fn(const nvtx_attributes *);
typedef void end_fn(uint64_t);
typedef int domain_push_fn(void *, const nvtx_attributes *);
typedef int domain_pop_fn(void *);
typedef uint64_t domain_start_fn(void *, const nvtx_attributes *);
typedef void domain_end_fn(void *, uint64_t);
typedef void *register_fn(void *, const void *);
typedef void *create_fn(const void *);
typedef void destroy_fn(void *);

static int push_text(int slot, int type, const void *message) {
  struct spelled s;
  range_text(&s, 0, true, type, message);
  int level = calls_push(0, s.text, nothing);
  push_text_fn *next = NEXT(core, slot, push_text_fn *);
  return next != NULL ? next(message) : level;
}

static int core_push_a(const void *message) { return push_text(CORE_PUSH_A, MESSAGE_ASCII, message); }
static int core_push_w(const void *message) { return push_text(CORE_PUSH_W, MESSAGE_UNICODE, message); }

static int core_push_ex(const nvtx_attributes *a) {
  struct spelled s;
  range_attributes(&s, 0, true, a);
  int level = calls_push(0, s.text, payloads_of(a));
  nvtx_attributes copy;
  push_ex_fn *next = NEXT(core, CORE_PUSH_EX, push_ex_fn *);
  return next != NULL ? next(for_next(a, &copy)) : level;
}

static int core_pop(void) {
  int level = calls_pop(0, nothing);
  pop_fn *next = NEXT(core, CORE_POP, pop_fn *);
  return next != NULL ? next() : level;
}

static uint64_t start_text(int slot, int type, const void *message) {
  struct spelled s;
  range_text(&s, 0, false, type, message);
  start_text_fn *next = NEXT(core, slot, start_text_fn *);
  return calls_start(next != NULL ? next(message) : 0, 0, s.text, nothing);
}

static uint64_t core_start_a(const void *message) { return start_text(CORE_START_A, MESSAGE_ASCII, message); }
static uint64_t core_start_w(const void *message) { return start_text(CORE_START_W, MESSAGE_UNICODE, message); }

static uint64_t core_start_ex(const nvtx_attributes *a) {
  struct spelled s;
  range_attributes(&s, 0, false, a);
  nvtx_attributes copy;
  start_ex_fn *next = NEXT(core, CORE_START_EX, start_ex_fn *);
  return calls_start(next != NULL ? next(for_next(a, &copy)) : 0, 0, s.text, payloads_of(a));
}

static void core_end(uint64_t range) {
  calls_end(range, 0, nothing);
  end_fn *next = NEXT(core, CORE_END, end_fn *);
  if (next != NULL) next(range);
}

static int domain_push(void *domain, const nvtx_attributes *a) {
  struct spelled s;
  uint32_t index = names_index(NAMES_DOMAIN, domain);
  range_attributes(&s, index, true, a);
  int level = calls_push(index, s.text, payloads_of(a));
  nvtx_attributes copy;
  domain_push_fn *next = NEXT(core2, CORE2_PUSH_EX, domain_push_fn *);
  return next != NULL ? next(names_theirs(domain), for_next(a, &copy)) : level;
}

static int domain_pop(void *domain) {
  int level = calls_pop(names_index(NAMES_DOMAIN, domain), nothing);
  domain_pop_fn *next = NEXT(core2, CORE2_POP, domain_pop_fn *);
  return next != NULL ? next(names_theirs(domain)) : level;
}

static uint64_t domain_start(void *domain, const nvtx_attributes *a) {
  struct spelled s;
  uint32_t index = names_index(NAMES_DOMAIN, domain);
  range_attributes(&s, index, false, a);
  nvtx_attributes copy;
  domain_start_fn *next = NEXT(core2, CORE2_START_EX, domain_start_fn *);
  uint64_t theirs = next != NULL ? next(names_theirs(domain), for_next(a, &copy)) : 0;
  return calls_start(theirs, index, s.text, payloads_of(a));
}

static void domain_end(void *domain, uint64_t range) {
  calls_end(range, 0, nothing);
  domain_end_fn *next = NEXT(core2, CORE2_END, domain_end_fn *);
  if (next != NULL) next(names_theirs(domain), range);
}

static void *add_name(enum names_kind kind, int type, const void *name, void *theirs) {
  struct spelled s;
  spell(&s, type, name);
  uint32_t length = s.text.length < KW_MAX_TEXT ? s.text.length : KW_MAX_TEXT;
  return names_add(kind, s.text.bytes, length, theirs);
}

static void *register_text(int slot, int type, void *domain, const void *text) {
  register_fn *next = NEXT(core2, slot, register_fn *);
  return add_name(NAMES_TEXT, type, text, next != NULL ? next(names_theirs(domain), text) : NULL);
}

static void *register_a(void *d, const void *t) { return register_text(CORE2_REGISTER_A, MESSAGE_ASCII, d, t); }
static void *register_w(void *d, const void *t) { return register_text(CORE2_REGISTER_W, MESSAGE_UNICODE, d, t); }

static void *create_domain(int slot, int type, const void *name) {
  create_fn *next = NEXT(core2, slot, create_fn *);
  return add_name(NAMES_DOMAIN, type, name, next != NULL ? next(name) : NULL);
}

static void *create_a(const void *name) { return create_domain(CORE2_CREATE_A, MESSAGE_ASCII, name); }
static void *create_w(const void *name) { return create_domain(CORE2_CREATE_W, MESSAGE_UNICODE, name); }

// A domain's entry stays: its id may be on the wire, and engines that make it again find it by its name.
static void destroy(void *domain) {
  destroy_fn *next = NEXT(core2, CORE2_DESTROY, destroy_fn *);
  if (next != NULL) next(names_theirs(domain));
}

static const nvtx_function ours_core[NVTX_SLOTS] = {
    [CORE_START_EX] = (nvtx_function)core_start_ex, [CORE_START_A] = (nvtx_function)core_start_a,
    [CORE_START_W] = (nvtx_function)core_start_w,   [CORE_END] = (nvtx_function)core_end,
    [CORE_PUSH_EX] = (nvtx_function)core_push_ex,   [CORE_PUSH_A] = (nvtx_function)core_push_a,
    [CORE_PUSH_W] = (nvtx_function)core_push_w,     [CORE_POP] = (nvtx_function)core_pop,
};

static const nvtx_function ours_core2[NVTX_SLOTS] = {
    [CORE2_START_EX] = (nvtx_function)domain_start, [CORE2_END] = (nvtx_function)domain_end,
    [CORE2_PUSH_EX] = (nvtx_function)domain_push,   [CORE2_POP] = (nvtx_function)domain_pop,
    [CORE2_REGISTER_A] = (nvtx_function)register_a, [CORE2_REGISTER_W] = (nvtx_function)register_w,
    [CORE2_CREATE_A] = (nvtx_function)create_a,     [CORE2_CREATE_W] = (nvtx_function)create_w,
    [CORE2_DESTROY] = (nvtx_function)destroy,
};

// A module is one of NVTX's tables in one image of the process: each image that uses NVTX initialises its own.
struct module {
  nvtx_function **slots;
  unsigned int size;
  nvtx_function before[NVTX_SLOTS];
};

static void look(struct module *m, const nvtx_callbacks *callbacks, int id) {
  m->slots = NULL;
  if (callbacks->module_table(id, &m->slots, &m->size) == 0 || m->slots == NULL) m->size = 0;
  if (m->size > NVTX_SLOTS) m->size = NVTX_SLOTS;
  for (unsigned int i = 0; i < m->size; i++) m->before[i] = m->slots[i] != NULL ? *m->slots[i] : NULL;
}

// install keeps what the next library put into the table and puts ours over it. A slot that it left alone holds
// NVTX's own initialiser, which must not be called again.
static void install(struct module *m, const nvtx_function *ours, nvtx_function *next) {
  for (unsigned int i = 0; i < m->size; i++) {
    if (ours[i] == NULL || m->slots[i] == NULL) continue;
    if (*m->slots[i] != m->before[i] && *m->slots[i] != ours[i]) next[i] = *m->slots[i];
    *m->slots[i] = ours[i];
  }
}

void *nvtx_next(const char *function, bool needed) {
  const char *path = env_text(ENV_NVTX_NEXT);
  if (*path == 0) return NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    log_line("KERNHES_NVTX_NEXT: %s", dlerror());
    return NULL;
  }
  void *found = dlsym(library, function);
  if (found == NULL && needed) log_line("KERNHES_NVTX_NEXT: %s has no %s", path, function);
  return found;
}

static void call_next(nvtx_get_table get) {
  int (*initialize)(nvtx_get_table) = (int (*)(nvtx_get_table))nvtx_next("InitializeInjectionNvtx2", true);
  if (initialize != NULL) initialize(get);
}

// InitializeInjectionNvtx2 is called by NVTX at the first call in each image; it returns 1 for success.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_table get) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // images may come to it at once
  env_load();
  main_watch_forks();
  const nvtx_callbacks *callbacks = get == NULL ? NULL : get(NVTX_CALLBACKS);
  if (callbacks == NULL || callbacks->size < sizeof *callbacks || callbacks->module_table == NULL) return 0;
  struct module core, core2;
  pthread_mutex_lock(&lock);
  look(&core, callbacks, NVTX_CORE);
  look(&core2, callbacks, NVTX_CORE2);
  call_next(get);
  install(&core, ours_core, next_core);
  install(&core2, ours_core2, next_core2);
  pthread_mutex_unlock(&lock);
  return 1;
}
