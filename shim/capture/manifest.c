#include "capture/manifest.h"

#include "host/descriptor.h"
#include "host/log.h"
#include "transport/wire.h"

#include <fcntl.h>
#include <sys/stat.h>

bool manifest_read(const char *path, struct bytes *to) {
  if (*path == 0) return false;
  struct stat is;
  struct descriptor d = descriptor_of(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe's writer is not waited for
  bool good = descriptor_ours(&d) && fstat(d.fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0 && is.st_size <= KW_MAX_BODY;
  uint8_t *at = good ? bytes_add(to, (size_t)is.st_size) : NULL;
  size_t got = 0;
  for (ssize_t n = 1; at != NULL && n > 0 && got < (size_t)is.st_size; got += n > 0 ? (size_t)n : 0) {
    n = descriptor_read(&d, at + got, (size_t)is.st_size - got, got);
  }
  descriptor_close(&d);
  good = at != NULL && got == (size_t)is.st_size;
  if (!good) log_line("KERNHES_MANIFEST=%s: not a readable file of 1 byte to 16 MiB", path);
  return good;
}
