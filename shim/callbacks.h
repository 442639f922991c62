// What CUPTI calls.
#ifndef KERNHES_CALLBACKS_H
#define KERNHES_CALLBACKS_H

#include <stddef.h>
#include <stdint.h>

void callbacks_api(void *user, int domain, uint32_t id, const void *data);

void callbacks_request(uint8_t **buffer, size_t *size, size_t *records);
void callbacks_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
void callbacks_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info);
void callbacks_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info);

// callbacks_enable enables each that is needed, and no other; it returns CUPTI's result.
int callbacks_enable(void);

#endif
