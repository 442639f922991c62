// What GPUs this host has, read where no driver need be asked.
#ifndef KERNHES_GPUS_H
#define KERNHES_GPUS_H

#include <stdbool.h>

// gpus_too_old is true if all NVIDIA GPUs of this host are older than Blackwell; false also if that cannot be seen.
// drivers: the folder of PCI drivers, NULL: that of this host.
bool gpus_too_old(const char *drivers);

#endif
