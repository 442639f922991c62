// The process's NVTX: its first call loads the injection library, and ranges go through the slots that it filled.
#ifndef KERNHES_PLAY_NVTX_H
#define KERNHES_PLAY_NVTX_H

#include <stddef.h>
#include <stdint.h>

// Domains are those of the recording: 0 is the default one. Text need not end in a zero.
void nvtx_domain(uint32_t domain, const char *name, size_t length);
// payload is as in a recording: schema u64, way u32, length u32, bytes; NULL: none comes with it.
void nvtx_push(uint32_t domain, const char *text, size_t length, const uint8_t *payload);
void nvtx_pop(uint32_t domain, const uint8_t *payload);
// nvtx_schema registers a schema: a frame's body of that length. Entries that do not fit it are left out.
void nvtx_schema(const uint8_t *body, size_t length);
// nvtx_unwind pops what the calling thread has left open.
void nvtx_unwind(void);

#endif
