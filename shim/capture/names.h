// NVTX's domains and registered strings: tables that only grow, and the handles that stand for their entries.
#ifndef KERNHES_NAMES_H
#define KERNHES_NAMES_H

#include "transport/intern.h"

#include <stdbool.h>
#include <stdint.h>

#define NAMES_DOMAINS 1024u  // with the default domain, 0
#define NAMES_TEXTS 65536u   // registered strings

enum names_kind { NAMES_DOMAIN, NAMES_TEXT };

// names_add gives the entry of a name, a new one if need be, and its handle: theirs if another library made one
// (theirs is not NULL), else our own. NULL if the table is full. It may allocate and lock: engines register at start.
void *names_add(enum names_kind kind, const char *name, uint32_t length, void *theirs);

// names_index gives the index of a handle; 0 for NULL or one that is not known. It neither locks nor allocates.
uint32_t names_index(enum names_kind kind, const void *handle);

// names_theirs gives what the next library is to be passed for a handle: itself, or NULL if it is our own.
void *names_theirs(const void *handle);

struct interned names_domain(uint32_t index);     // for the life of the process
struct interned names_registered(uint32_t index); // likewise

#endif
