// What GPUs this host has, read where no driver need be asked.
#ifndef KERNHES_GPUS_H
#define KERNHES_GPUS_H

#include <stdbool.h>
#include <stddef.h>

// gpus_too_old is true if all NVIDIA GPUs of this host are older than Blackwell; false also if that cannot be seen.
// drivers: the folder of PCI drivers, NULL: that of this host.
bool gpus_too_old(const char *drivers);

// gpus_of_host writes the PCI addresses of this host's GPUs, in order, with commas between, and returns text. A container sees
// them all there, whichever GPUs it may use. drivers as above.
const char *gpus_of_host(const char *drivers, char *text, size_t size);

// gpus_lower makes a PCI address of the driver, as 0000:3B:00.0, one of the kernel's.
void gpus_lower(char *address);

#endif
