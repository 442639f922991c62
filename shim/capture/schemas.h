// Layouts of NVTX payloads, as engines register them: a table that only grows. Registering may allocate and lock; finding does neither.
#ifndef KERNHES_SCHEMAS_H
#define KERNHES_SCHEMAS_H

#include "capture/nvtx_abi.h"
#include "transport/wire.h"

#define SCHEMAS_MAX 1024u
#define SCHEMAS_ENTRIES 4096u // bytes of the entries of one schema, as they go out
#define SCHEMAS_LAYOUTS 4u    // of one id: libraries of several versions may register the same static ids

// schemas_add keeps a schema of a domain and returns its id: the engine's own, else theirs (of a chained library; 0: there is none),
// else a new one.
uint64_t schemas_add(uint32_t domain, const nvtx_schema *schema, uint64_t theirs);
uint64_t schemas_add_enum(uint32_t domain, const nvtx_enum *values, uint64_t theirs);

// schemas_find gives the index of an id's first layout, from 1; 0 if it is not known.
uint32_t schemas_find(uint32_t domain, uint64_t id);

// schemas_next gives the next layout of the same id, or 0.
uint32_t schemas_next(uint32_t index);

// schemas_room says how many bytes of a payload may be read: no more than the engine said that there are, nor than the
// largest layout of its id has. 0: nobody can say.
uint32_t schemas_room(uint32_t index, size_t size);

// schemas_event is the SCHEMA event of a layout, its head without length, thread and time. It stays for the life of the process.
const kw_schema *schemas_event(uint32_t index);

#endif
