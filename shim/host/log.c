// The log: one write(2) to stderr a line, and only if enabled. Never called on a launch path.
#include "host/log.h"

#include "host/descriptor.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static struct descriptor to = {.fd = -1}; // stderr as it was: should the engine put another file there, that stays as it is

void log_enable(bool on) { to = descriptor_of(on ? STDERR_FILENO : -1); }

void log_line(const char *format, ...) {
  if (!descriptor_ours(&to)) return;
  char line[1024] = "kernhes: ";
  const int head = 9;
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(line + head, sizeof line - head - 1, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  if (n > (int)sizeof line - head - 2) n = (int)sizeof line - head - 2;
  line[head + n] = '\n';
  ssize_t written = write(to.fd, line, (size_t)(head + n + 1));
  (void)written; // nobody is told that nobody could be told
}
