// Words for whoever asked for them with KERNHES_LOG=1; silence otherwise.
#ifndef KERNHES_LOG_H
#define KERNHES_LOG_H

#include <stdbool.h>

void log_enable(bool on);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
