// PCI device ids tell GPU generations apart: Hopper has 0x23xx, Ada up to 0x28xx, Blackwell begins at 0x29xx (B200: 0x2901).
#include "gpus.h"

#include "descriptor.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLACKWELL 0x2900u

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
