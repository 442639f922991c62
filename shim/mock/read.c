// What clients read: records one by one, their sizes, the version, result texts.
#include <string.h>
#include "state.h"

API int cuptiGetVersion(uint32_t *version) {
  if (!version) return INVALID_PARAMETER;
  *version = MOCK_API;
  return OK;
}

API int cuptiGetResultString(int result, const char **text) {
  static const struct { int result; const char *text; } table[] = {
      {OK, "CUPTI_SUCCESS"},
      {INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER"},
      {SIZE_NOT_SUFFICIENT, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT"},
      {END_OF_BUFFER, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
      {NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE"},
      {NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED"},
      {INVALID_KIND, "CUPTI_ERROR_INVALID_KIND"},
      {NOT_SUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED"},
      {BUSY, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
  };
  if (!text) return INVALID_PARAMETER;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].result == result) {
      *text = table[i].text;
      return OK;
    }
  return INVALID_PARAMETER;
}

// next_record walks as CUPTI does, by this version's sizes. A record that is cut short ends the walk with
// INVALID_PARAMETER, so that a client can tell it from the end.
static int next_record(const char *call, uint8_t *buffer, size_t valid, void **record) {
  check_alive(call);
  if (!buffer || !record) return INVALID_PARAMETER;
  size_t known = known_valid(buffer);
  if (known != (size_t)-1 && valid > known) forbid("%s with %zu valid bytes; the buffer came back with %zu", call, valid, known);
  size_t at = 0;
  uint32_t kind;
  if (*record) {
    at = (size_t)((uint8_t *)*record - buffer);
    if (at + sizeof kind > valid) return INVALID_PARAMETER;
    memcpy(&kind, buffer + at, sizeof kind);
    if (!mock_size(kind)) return INVALID_KIND;
    at += mock_size(kind);
  }
  if (at == valid) return END_OF_BUFFER;
  if (at + sizeof kind > valid) return INVALID_PARAMETER;
  memcpy(&kind, buffer + at, sizeof kind);
  if (!mock_size(kind)) return INVALID_KIND;
  if (at + mock_size(kind) > valid) return INVALID_PARAMETER;
  *record = buffer + at;
  return OK;
}

API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
  if (MOCK_V2) check_generation("cuptiActivityGetNextRecord", 1);
  return next_record("cuptiActivityGetNextRecord", buffer, valid, record);
}

#if MOCK_V2
API int cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer, size_t valid, void **record) {
  check_generation("cuptiActivityGetNextRecord_v2", 2);
  (void)subscriber; // buffers may still be read after it has gone
  return next_record("cuptiActivityGetNextRecord_v2", buffer, valid, record);
}
#endif

#if MOCK_V2_PREVIEW
API int cuptiActivityGetStructSize(int kind, uint32_t version, size_t *size) {
  if (!size || (version && version < 130000)) return INVALID_PARAMETER;
  if (kind < 1 || kind == KIND_UNKNOWN || !mock_size((unsigned)kind)) return INVALID_KIND;
  *size = mock_size((unsigned)kind);
  return OK;
}
#endif
