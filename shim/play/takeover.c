// As an engine that closes all descriptors, the client's too, and has files of its own under the same numbers.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "takeover.h"

enum { NUMBERS = 1024, FILES = 64, POSITION = 3 };
static const char contents[] = "the engine's own";

static int files[FILES];
static uint64_t n_files;

static void put_file(int number) {
  char path[] = "/tmp/kernhes-play-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || unlink(path) || write(fd, contents, sizeof contents) != sizeof contents) abort();
  if (lseek(fd, POSITION, SEEK_SET) != POSITION) abort();
  if (fd != number && (dup2(fd, number) < 0 || close(fd))) abort();
  files[n_files++] = number;
}

void takeover(void) {
  int numbers[FILES], n = 0;
  for (int fd = 3; fd < NUMBERS && n < FILES; fd++)
    if (!close(fd)) numbers[n++] = fd;
  for (int i = 0; i < n; i++) put_file(numbers[i]);
}

uint64_t takeover_files(void) { return n_files; }

uint64_t takeover_harmed(void) {
  uint64_t harmed = 0;
  for (uint64_t i = 0; i < n_files; i++) {
    char now[2 * sizeof contents];
    harmed += lseek(files[i], 0, SEEK_CUR) != POSITION || pread(files[i], now, sizeof now, 0) != sizeof contents ||
              memcmp(now, contents, sizeof contents);
  }
  return harmed;
}
