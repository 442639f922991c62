// Finding the one libcupti of the process. A second copy would split its state, so one that is there is taken,
// and with two of them nothing is.
#include "capture/cupti.h"

#include "host/env.h"
#include "host/log.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cupti cupti;

struct symbol {
  const char *name;
  size_t at;       // in struct cupti
  uint32_t since;  // it is not to be used before this version
  bool vital;
};

#define SYMBOL(name, since, vital) {"cupti" #name, offsetof(struct cupti, name), since, vital}

// The V2 set of 13.2 is a preview with parts missing, so none of it is used before 13.3.
static const struct symbol symbols[] = {
    SYMBOL(GetVersion, 0, true),
    SYMBOL(GetResultString, 0, false),
    SYMBOL(Subscribe, 0, true),
    SYMBOL(Subscribe_v2, CUPTI_13_3, false),
    SYMBOL(Unsubscribe, 0, true),
    SYMBOL(EnableCallback, 0, true),
    SYMBOL(GetCallbackName, 0, false),
    SYMBOL(ActivityRegisterCallbacks, 0, true),
    SYMBOL(ActivityRegisterCallbacks_v2, CUPTI_13_3, false),
    SYMBOL(ActivityEnable, 0, true),
    SYMBOL(ActivityEnable_v2, CUPTI_13_3, false),
    SYMBOL(ActivityDisable, 0, true),
    SYMBOL(ActivityDisable_v2, CUPTI_13_3, false),
    SYMBOL(ActivitySetAttribute, 0, false),
    SYMBOL(ActivitySetAttribute_v2, CUPTI_13_3, false),
    SYMBOL(ActivityGetAttribute_v2, CUPTI_13_3, false),
    SYMBOL(ActivityGetNextRecord, 0, true),
    SYMBOL(ActivityGetNextRecord_v2, CUPTI_13_3, false),
    SYMBOL(ActivityFlushAll, 0, true),
    SYMBOL(ActivityGetNumDroppedRecords, 0, false),
    SYMBOL(ActivityGetNumDroppedRecords_v2, CUPTI_13_3, false),
    SYMBOL(ActivityEnableHWTrace, CUPTI_HWTRACE, false),
    SYMBOL(Finalize, 0, false),
    SYMBOL(GetTimestamp, 0, false),
    SYMBOL(GetTimestamp_v2, CUPTI_13_3, false),
    SYMBOL(GetGraphNodeId, 0, false),
    SYMBOL(GetGraphId, 0, false),
    SYMBOL(GetGraphExecId, 0, false),
};

struct found {
  char paths[2][512];
  int count; // distinct ones
};

static int look(struct dl_phdr_info *info, size_t size, void *to) {
  (void)size;
  struct found *f = to;
  const char *path = info->dlpi_name == NULL ? "" : info->dlpi_name, *slash = strrchr(path, '/');
  if (strncmp(slash == NULL ? path : slash + 1, "libcupti.so", 11) != 0) return 0;
  if (f->count == 2 || (f->count == 1 && strcmp(f->paths[0], path) == 0)) return 0;
  snprintf(f->paths[f->count++], sizeof f->paths[0], "%s", path);
  return 0;
}

static void *open_one(char *why, size_t room) {
  struct found f = {0};
  dl_iterate_phdr(look, &f);
  if (f.count == 2) {
    snprintf(why, room, "two copies of CUPTI: %s and %s", f.paths[0], f.paths[1]);
    return NULL;
  }
  const char *set = env_text(ENV_CUPTI);
  const char *tries[] = {f.count == 1 ? f.paths[0] : *set != 0 ? set : "libcupti.so.13",
                         f.count == 1 || *set != 0 ? NULL : "libcupti.so.12"};
  for (int i = 0; i < 2 && tries[i] != NULL; i++) {
    void *library = dlopen(tries[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    const char *error = dlerror();
    snprintf(why, room, "no CUPTI: %s", error != NULL ? error : tries[i]);
  }
  return NULL;
}

static void *symbol_of(void *library, const struct symbol *s) {
  void *address = dlsym(library, s->name);
  memcpy((uint8_t *)&cupti + s->at, &address, sizeof address);
  return address;
}

bool cupti_load(char *why, size_t room) {
  void *library = open_one(why, room);
  if (library == NULL) return false;
  const size_t count = sizeof symbols / sizeof *symbols;
  struct link_map *map;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) snprintf(cupti.path, sizeof cupti.path, "%s", map->l_name);
  if (symbol_of(library, &symbols[0]) == NULL || cupti.GetVersion(&cupti.version) != CUPTI_OK) {
    snprintf(why, room, "%s does not say its version", cupti.path);
    return false;
  }
  for (size_t i = 1; i < count; i++) {
    if (cupti.version < symbols[i].since || symbol_of(library, &symbols[i]) != NULL || !symbols[i].vital) continue;
    snprintf(why, room, "%s (version %u) lacks %s", cupti.path, cupti.version, symbols[i].name);
    return false;
  }
  cupti.v2 = cupti.ActivityGetNextRecord_v2 != NULL && cupti.GetTimestamp_v2 != NULL && cupti.Subscribe_v2 != NULL &&
             cupti.ActivityRegisterCallbacks_v2 != NULL && cupti.ActivityEnable_v2 != NULL &&
             cupti.ActivityDisable_v2 != NULL && cupti.ActivitySetAttribute_v2 != NULL &&
             cupti.ActivityGetAttribute_v2 != NULL;
  return true;
}

void cupti_load_beside(void) {
  char path[sizeof cupti.path + 32];
  const char *slash = strrchr(cupti.path, '/');
  if (slash == NULL) return;
  snprintf(path, sizeof path, "%.*s/libnvperf_host.so", (int)(slash - cupti.path), cupti.path);
  if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL) log_line("not loaded: %s", path);
}

const char *cupti_result(int result) {
  const char *word = NULL;
  if (cupti.GetResultString == NULL || cupti.GetResultString(result, &word) != CUPTI_OK) word = NULL;
  return word != NULL ? word : "no word for it";
}

int cupti_next_record(uint8_t *buffer, size_t valid, void **record) {
  if (cupti.v2) return cupti.ActivityGetNextRecord_v2(cupti.subscriber, buffer, valid, record);
  return cupti.ActivityGetNextRecord(buffer, valid, record);
}

int cupti_dropped(size_t *count) {
  if (cupti.v2 && cupti.ActivityGetNumDroppedRecords_v2 != NULL) {
    return cupti.ActivityGetNumDroppedRecords_v2(cupti.subscriber, NULL, 0, count);
  }
  if (cupti.v2 || cupti.ActivityGetNumDroppedRecords == NULL) return -1;
  return cupti.ActivityGetNumDroppedRecords(NULL, 0, count);
}

int cupti_timestamp(uint64_t *time) {
  if (cupti.v2) return cupti.GetTimestamp_v2(cupti.subscriber, time);
  return cupti.GetTimestamp == NULL ? -1 : cupti.GetTimestamp(time);
}

int cupti_enable(int kind, bool on) {
  if (cupti.v2) {
    return on ? cupti.ActivityEnable_v2(cupti.subscriber, kind, NULL)
              : cupti.ActivityDisable_v2(cupti.subscriber, kind, NULL);
  }
  return on ? cupti.ActivityEnable(kind) : cupti.ActivityDisable(kind);
}
