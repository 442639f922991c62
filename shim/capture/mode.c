// The mode changes a few times in a process's life and is read by the sender; a plain lock does.
#include "capture/mode.h"

#include "capture/cupti.h"
#include "host/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mode_state now;
static atomic_bool off;

void mode_set(enum mode mode, const char *format, ...) {
  char reason[MODE_REASON];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  for (char *c = reason; *c != 0; c++) {
    if (*c == '\n' || *c == '\r') *c = ' ';
  }
  pthread_mutex_lock(&lock);
  bool subscribed = atomic_load(&cupti.subscriber) != NULL;
  bool same = now.version > 0 && now.mode == mode && now.subscribed == subscribed && strcmp(now.reason, reason) == 0;
  if (same) {
    pthread_mutex_unlock(&lock);
    return;
  }
  now.mode = mode;
  atomic_store(&off, mode == MODE_OFF);
  now.subscribed = subscribed;
  snprintf(now.reason, sizeof now.reason, "%s", reason);
  now.version++;
  pthread_mutex_unlock(&lock);
  log_line("tracing: %s%s%s", mode_name(mode), *reason ? ": " : "", reason);
}

struct mode_state mode_get(void) {
  pthread_mutex_lock(&lock);
  struct mode_state s = now;
  pthread_mutex_unlock(&lock);
  return s;
}

bool mode_is_off(void) { return atomic_load_explicit(&off, memory_order_relaxed); }

const char *mode_name(enum mode mode) {
  static const char *const names[] = {[MODE_OFF] = "off", [MODE_SOFTWARE] = "software", [MODE_HES] = "hes"};
  return names[mode];
}
