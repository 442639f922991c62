// What CUPTI calls.
#ifndef KERNHES_CALLBACKS_H
#define KERNHES_CALLBACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whom a subscriber's callbacks call on, besides the ring and the pool: CUPTI hands it to them as their user.
struct callbacks_told {
  void (*initialised)(void); // cuInit has finished, or a context shows that it has
  void (*context)(void);     // a context was made; NULL: nobody is to know
  void (*refused)(bool fatal, uint32_t result, const char *message);
};

// callbacks_api is told by `user`, a struct callbacks_told.
void callbacks_api(void *user, int domain, uint32_t id, const void *data);

void callbacks_request(uint8_t **buffer, size_t *size, size_t *records);
void callbacks_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
void callbacks_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info);
void callbacks_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info);

// callbacks_count: from here on inside_count tells how many threads are in a callback, or no longer. In the mode windows always.
void callbacks_count(bool on);

// callbacks_enable enables each that is needed, and no other; it returns CUPTI's result. windows: also those that edges need,
// and what edges must know is noted from here on.
int callbacks_enable(bool windows);

#endif
