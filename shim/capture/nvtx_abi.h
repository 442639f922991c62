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

#define NVTX_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009) // payload_type: payload points to an array of nvtx_payload, reserved is its count

_Static_assert(offsetof(nvtx_attributes, message) == 40 && sizeof(nvtx_attributes) == 48, "NVTX's event attributes");

// The payload extension: NVTX hands each module's slots to InitializeInjectionNvtxExtension.
#define NVTX_EXTENSION_PAYLOAD 2 // module id

enum {
  PAYLOAD_SCHEMA_REGISTER = 0,
  PAYLOAD_ENUM_REGISTER = 1,
  PAYLOAD_MARK = 2,
  PAYLOAD_PUSH = 3,
  PAYLOAD_POP = 4,
  PAYLOAD_START = 5,
  PAYLOAD_END = 6,
  PAYLOAD_SLOTS = 7, // those that are ours; NVTX has 63, and the ones beyond may grow
};

typedef struct {
  size_t id, slots;
  intptr_t *functions;
} nvtx_segment;

typedef struct {
  uint16_t version, size, module, compatible; // size: of this struct
  size_t segments_count;
  nvtx_segment *segments;
  // more, in structs of that size
} nvtx_module;

typedef struct {
  uint64_t schema;
  size_t size; // SIZE_MAX: as the schema says
  const void *bytes;
} nvtx_payload;

typedef struct {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t detail, offset;
  const void *semantics, *reserved;
} nvtx_schema_entry;

// Bits of nvtx_schema.fields: which fields are given. Others may not even be there.
enum {
  SCHEMA_TYPE = 1 << 2,
  SCHEMA_ENTRIES = 1 << 4,
  SCHEMA_COUNT = 1 << 5,
  SCHEMA_SIZE = 1 << 6,
  SCHEMA_PACK = 1 << 7,
  SCHEMA_ID = 1 << 8,
};

typedef struct {
  uint64_t fields;
  const char *name;
  uint64_t type, flags;
  const nvtx_schema_entry *entries;
  size_t count, size, pack;
  uint64_t id;
} nvtx_schema;

enum { SCHEMA_TYPE_DYNAMIC = 2 }; // its payloads have no fixed size

#define NVTX_SCHEMA_STATIC (1ull << 24)  // ids from here on are the engine's
#define NVTX_SCHEMA_DYNAMIC (1ull << 32) // and from here on the injected library's

typedef struct {
  const char *name;
  uint64_t value;
  int8_t is_flag;
} nvtx_enum_entry;

// Bits of nvtx_enum.fields.
enum { ENUM_ENTRIES = 1 << 2, ENUM_COUNT = 1 << 3, ENUM_SIZE = 1 << 4, ENUM_ID = 1 << 5 };

typedef struct {
  uint64_t fields;
  const char *name;
  const nvtx_enum_entry *entries;
  size_t count, size;
  uint64_t id;
} nvtx_enum;

_Static_assert(offsetof(nvtx_module, segments) == 16 && sizeof(nvtx_segment) == 24 && sizeof(nvtx_payload) == 24 &&
                   sizeof(nvtx_schema_entry) == 64 && offsetof(nvtx_schema, id) == 64 && offsetof(nvtx_enum, id) == 40 &&
                   sizeof(nvtx_enum_entry) == 24,
               "NVTX's payload extension");

#endif
