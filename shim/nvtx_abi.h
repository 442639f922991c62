// NVTX 3's injection interface: what the shim needs of a public, stable ABI, written out here so that no header is
// needed at build time.
#ifndef KERNHES_NVTX_ABI_H
#define KERNHES_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_CALLBACKS 1u // id of the export table that gives the function tables
#define NVTX_CORE 1
#define NVTX_CORE2 5

#define NVTX_NO_TRACKING (-2) // of a push or pop whose level is not known

// Slots of the CORE table.
enum {
  CORE_START_EX = 4,
  CORE_START_A = 5,
  CORE_START_W = 6,
  CORE_END = 7,
  CORE_PUSH_EX = 8,
  CORE_PUSH_A = 9,
  CORE_PUSH_W = 10,
  CORE_POP = 11,
};

// Slots of the CORE2 table.
enum {
  CORE2_START_EX = 2,
  CORE2_END = 3,
  CORE2_PUSH_EX = 4,
  CORE2_POP = 5,
  CORE2_REGISTER_A = 10,
  CORE2_REGISTER_W = 11,
  CORE2_CREATE_A = 12,
  CORE2_CREATE_W = 13,
  CORE2_DESTROY = 14,
};

#define NVTX_SLOTS 16 // both tables; a newer NVTX may have more

typedef void (*nvtx_function)(void);
typedef const void *(*nvtx_get_table)(uint32_t id);

typedef struct {
  size_t size;
  int (*module_table)(int module, nvtx_function ***table, unsigned int *size); // size: slots, from 0
} nvtx_callbacks;

enum { MESSAGE_NONE = 0, MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message; // char *, wchar_t *, or the handle of a registered string
} nvtx_attributes;

_Static_assert(offsetof(nvtx_attributes, message) == 40 && sizeof(nvtx_attributes) == 48, "NVTX's event attributes");

#endif
