// The process's NVTX payload extension: slots that the injection library fills, if it has the extension's entry.
#ifndef KERNHES_PLAY_EXTENSION_H
#define KERNHES_PLAY_EXTENSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAYLOAD_EXTENDED 0xDFBD0009u // type of event attributes' payload: an array of extension_data

// nvtxPayloadData_t, as published.
typedef struct { uint64_t schema; size_t size; const void *bytes; } extension_data;

void extension_initialise(void *library);

// extension_payload is the datum of a recorded payload: schema u64, way u32, length u32, bytes.
extension_data extension_payload(const uint8_t *payload);
void extension_register(void *domain, const uint8_t *schema, size_t length); // a SCHEMA frame's body

// Both return false where the library has no such function.
bool extension_push(void *domain, const extension_data *);
bool extension_pop(void *domain, const extension_data *);

#endif
