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
static struct mode_state now = {.windows = ""};
static atomic_bool off;

static void set(enum mode mode, const char *windows, const char *format, va_list arguments) {
  char reason[MODE_REASON];
  vsnprintf(reason, sizeof reason, format, arguments);
  for (char *c = reason; *c != 0; c++) {
    if (*c == '\n' || *c == '\r') *c = ' ';
  }
  pthread_mutex_lock(&lock);
  bool subscribed = atomic_load(&cupti.subscriber) != NULL;
  bool same = now.version > 0 && now.mode == mode && now.subscribed == subscribed && strcmp(now.reason, reason) == 0 &&
              strcmp(now.windows, windows) == 0;
  if (same) {
    pthread_mutex_unlock(&lock);
    return;
  }
  now.mode = mode;
  atomic_store(&off, mode == MODE_OFF || (mode == MODE_WINDOWS && strcmp(windows, "detached") == 0));
  now.subscribed = subscribed;
  now.windows = windows;
  snprintf(now.reason, sizeof now.reason, "%s", reason);
  now.version++;
  pthread_mutex_unlock(&lock);
  log_line("tracing: %s%s%s%s%s", mode_name(mode), *windows ? ", " : "", windows, *reason ? ": " : "", reason);
}

void mode_set(enum mode mode, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set(mode, "", format, arguments);
  va_end(arguments);
}

void mode_windows(const char *state, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set(MODE_WINDOWS, state, format, arguments);
  va_end(arguments);
}

struct mode_state mode_get(void) {
  pthread_mutex_lock(&lock);
  struct mode_state s = now;
  pthread_mutex_unlock(&lock);
  return s;
}

bool mode_is_off(void) { return atomic_load_explicit(&off, memory_order_relaxed); }

const char *mode_name(enum mode mode) {
  static const char *const names[] = {[MODE_OFF] = "off", [MODE_SOFTWARE] = "software", [MODE_HES] = "hes",
                                      [MODE_WINDOWS] = "windows"};
  return names[mode];
}
