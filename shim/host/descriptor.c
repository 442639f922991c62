// Opening, keeping and closing descriptors beside an engine that does the same.
#include "host/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUMBERS 1024u // of them the last eighth is ours: higher ones would make the kernel's table of them large

static const struct descriptor none = {.fd = -1};

struct descriptor descriptor_of(int fd) {
  struct stat is;
  if (fd < 0 || fstat(fd, &is) != 0) return none;
  return (struct descriptor){.fd = fd, .device = is.st_dev, .inode = is.st_ino};
}

bool descriptor_ours(const struct descriptor *d) {
  struct descriptor now = descriptor_of(d->fd);
  return now.fd >= 0 && now.device == d->device && now.inode == d->inode;
}

// lowest gives the lowest number that the shim may keep.
static int lowest(void) {
  struct rlimit limit;
  unsigned numbers = NUMBERS;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < numbers) numbers = (unsigned)limit.rlim_cur;
  return (int)(numbers - numbers / 8);
}

struct descriptor descriptor_raise(struct descriptor d) {
  if (!descriptor_ours(&d)) return none;
  struct descriptor high = d;
  high.fd = fcntl(d.fd, F_DUPFD_CLOEXEC, lowest());
  descriptor_close(&d);
  if (high.fd < 0 || descriptor_ours(&high)) return high;
  close(high.fd); // the engine had taken d's number just before: this is a copy of its file, made here
  return none;
}

ssize_t descriptor_read(const struct descriptor *d, void *to, size_t room, size_t at) {
  return descriptor_ours(d) ? pread(d->fd, to, room, (off_t)at) : -1;
}

void descriptor_close(struct descriptor *d) {
  if (descriptor_ours(d)) close(d->fd);
  *d = none;
}

char *descriptor_text(const char *path, char *to, size_t room) {
  struct descriptor d = descriptor_of(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe's writer is not waited for
  ssize_t n = descriptor_read(&d, to, room - 1, 0);
  to[n > 0 ? n : 0] = 0;
  descriptor_close(&d);
  return to;
}
