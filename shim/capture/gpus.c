// PCI device ids tell GPU generations apart: Hopper has 0x23xx, Ada up to 0x28xx, Blackwell begins at 0x29xx (B200: 0x2901).
#include "capture/gpus.h"

#include "host/descriptor.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLACKWELL 0x2900u
#define MOST_GPUS 64
#define ADDRESS 16 // bytes of one as 0000:3b:00.0, with the zero at its end

bool gpus_too_old(const char *drivers) {
  char path[PATH_MAX], text[16];
  unsigned old = 0;
  if (drivers == NULL) drivers = "/sys/bus/pci/drivers";
  snprintf(path, sizeof path, "%s/nvidia", drivers);
  DIR *folder = opendir(path);
  if (folder == NULL) return false;
  bool newer = false;
  for (struct dirent *e; (e = readdir(folder)) != NULL;) { // among other things, a link a device, as 0000:00:06.0
    snprintf(path, sizeof path, "%s/nvidia/%s/device", drivers, e->d_name);
    if (access(path, F_OK) != 0) continue;
    unsigned long id = strtoul(descriptor_text(path, text, sizeof text), NULL, 16);
    if (id >= BLACKWELL || id == 0) newer = true;
    else old++;
  }
  closedir(folder);
  return old > 0 && !newer;
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

const char *gpus_of_host(const char *drivers, char *text, size_t size) {
  char path[PATH_MAX], found[MOST_GPUS][ADDRESS];
  size_t n = 0, used = 0;
  if (drivers == NULL) drivers = "/sys/bus/pci/drivers";
  snprintf(path, sizeof path, "%s/nvidia", drivers);
  text[0] = 0;
  DIR *folder = opendir(path);
  if (folder == NULL) return text;
  for (struct dirent *e; n < MOST_GPUS && (e = readdir(folder)) != NULL;) {
    if (strchr(e->d_name, ':') == NULL || strlen(e->d_name) >= ADDRESS) continue;
    strcpy(found[n++], e->d_name);
  }
  closedir(folder);
  qsort(found, n, sizeof *found, compare);
  for (size_t i = 0; i < n && used + ADDRESS + 1 < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "," : "", found[i]);
  }
  return text;
}

void gpus_lower(char *address) {
  for (char *c = address; *c != 0; c++) {
    if (*c >= 'A' && *c <= 'F') *c = (char)(*c - 'A' + 'a');
  }
}
