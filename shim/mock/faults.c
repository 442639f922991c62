// Faults on request: KERNHES_MOCK_FAULT=name[=number],… and the scenarios KERNHES_MOCK_HES, KERNHES_MOCK_NULL.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state.h"

static _Noreturn void refuse(const char *variable, const char *text) {
  fprintf(stderr, "mock cupti: %s: %s: not known; see kernhes-play --help\n", variable, text);
  exit(2);
}

static bool read_one(mock_faults *f, const char *name, bool valued, uint64_t n) {
  struct { const char *name; uint64_t *number; bool *flag; uint64_t otherwise; } const table[] = {
      {"drop", &f->drop, NULL, 0},
      {"drop-silent", &f->drop_silent, NULL, 0},
      {"zero-start", &f->zero_start, NULL, 0},
      {"zero-end", &f->zero_end, NULL, 0},
      {"backward", &f->backward, NULL, 0},
      {"long", &f->too_long, NULL, 0},
      {"future", &f->future, NULL, 0},
      {"withhold", &f->withhold, NULL, 0},
      {"duplicate", &f->duplicate, NULL, 0},
      {"unknown-kind", &f->unknown_kind, NULL, 0},
      {"late-complete", &f->late_ms, NULL, 0},
      {"flush-slow", &f->flush_slow_ms, NULL, 0},
      {"flush-fail", &f->flush_fail, NULL, 0},
      {"guest", &f->guest_ms, NULL, 0},
      {"patience", &f->patience_ms, NULL, 0},
      {"warm-up", &f->warm_up, NULL, 79000},
      {"finalize-slow", &f->finalize_ms, NULL, 0},
      {"linger", &f->linger_us, NULL, 0},
      {"truncate", &f->truncate, NULL, 1},
      {"busy", &f->busy, NULL, UINT64_MAX},
      {"reorder", &f->reorder, &f->reordered, 0},
      {"unreadable", NULL, &f->unreadable, 0},
      {"short-buffers", NULL, &f->short_buffers, 0},
      {"hold-back", NULL, &f->hold_back, 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(name, table[i].name)) continue;
    if (!table[i].number && valued) return false;
    if (table[i].number && !valued && !table[i].otherwise) return false;
    if (table[i].number) *table[i].number = valued ? n : table[i].otherwise;
    if (table[i].flag) *table[i].flag = true;
    return true;
  }
  // These are the player's.
  return !strcmp(name, "kill-at") || !strcmp(name, "takeover") || !strcmp(name, "missing") || !strcmp(name, "wrap");
}

void read_faults(mock_faults *f) {
  // Callbacks take microseconds; 30 s is a deadlock also under a sanitizer on a busy machine.
  *f = (mock_faults){.patience_ms = 30000};
  const char *hes = getenv("KERNHES_MOCK_HES");
  if (!hes || !*hes || !strcmp(hes, "refused")) f->hes = HES_REFUSED;
  else if (!strcmp(hes, "accepted")) f->hes = HES_ACCEPTED;
  else if (!strcmp(hes, "late")) f->hes = HES_LATE;
  else refuse("KERNHES_MOCK_HES", hes);

  const char *null = getenv("KERNHES_MOCK_NULL");
  if (null && !strcmp(null, "invalid")) f->null_invalid = true;
  else if (null && *null && strcmp(null, "ok")) refuse("KERNHES_MOCK_NULL", null);

  const char *list = getenv("KERNHES_MOCK_FAULT");
  if (!list) return;
  char copy[1024], *rest = copy;
  if (snprintf(copy, sizeof copy, "%s", list) >= (int)sizeof copy) refuse("KERNHES_MOCK_FAULT", list);
  for (char *one; (one = strsep(&rest, ","));) {
    if (!*one) continue;
    char *value = strchr(one, '='), *end = NULL;
    if (value) *value++ = 0;
    uint64_t n = value ? strtoull(value, &end, 10) : 0;
    bool text = !strcmp(one, "missing") || !strcmp(one, "kill-at") || !strcmp(one, "takeover");
    if ((value && !text && (*end || end == value)) || !read_one(f, one, value != NULL, n)) refuse("KERNHES_MOCK_FAULT", one);
  }
}
