// The log: one write(2) to stderr a line, and only if enabled. Never called on a launch path.
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool enabled;

void log_enable(bool on) { enabled = on; }

void log_line(const char *format, ...) {
  if (!enabled) return;
  char line[1024] = "kernhes: ";
  const int head = 9;
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(line + head, sizeof line - head - 1, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  if (n > (int)sizeof line - head - 2) n = (int)sizeof line - head - 2;
  line[head + n] = '\n';
  ssize_t written = write(STDERR_FILENO, line, (size_t)(head + n + 1));
  (void)written; // nobody is told that nobody could be told
}
