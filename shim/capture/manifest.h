// The engine's manifest: a file, read once.
#ifndef KERNHES_MANIFEST_H
#define KERNHES_MANIFEST_H

#include "transport/bytes.h"

// manifest_read appends the file's bytes; false if path is "", or it cannot be read, is empty or over 16 MiB.
bool manifest_read(const char *path, struct bytes *to);

#endif
