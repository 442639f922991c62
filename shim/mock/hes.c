// The Hardware Event System: when it may be asked for, and what comes of it. KERNHES_MOCK_HES is the answer.
#include <string.h>
#include "state.h"

enum { ATTRIBUTE_ZEROED_OUT = 5, ATTRIBUTE_STATE = 12, ATTRIBUTE_HES = 13, ATTRIBUTE_LATENCY = 15, ATTRIBUTE_CLOCK = 22 };
enum { STATE_ERROR = 2 };

// ask_hes is common to both ways of asking; once on, it stays on.
static int ask_hes(const char *call) {
  if (mock.contexts) forbid("%s: HES asked for after the first context", call);
  if (mock.latency) forbid("%s: HES with latency timestamps", call);
  if (mock.fault.hes == HES_REFUSED && (mock.initialised || !MOCK_HES_BEFORE_INIT)) return NOT_SUPPORTED;
  mock.hes_asked = true; // before cuInit from 13.3 on SUCCESS proves nothing
  if (mock.initialised) mock.hes_on = true;
  return OK;
}

API int cuptiActivityEnableHWTrace(uint8_t enable) {
  check_process("cuptiActivityEnableHWTrace");
  if (!enable) return mock.hes_on ? NOT_SUPPORTED : OK;
  if (!MOCK_HES_BEFORE_INIT && !mock.initialised) forbid("cuptiActivityEnableHWTrace before cuInit has returned (CUPTI %d)", MOCK_API);
  return ask_hes("cuptiActivityEnableHWTrace");
}

// A request made before cuInit is decided when the driver is up; a refusal is only told as a state callback.
bool hes_initialised(void) {
  if (!mock.hes_asked) return true;
  mock.hes_on = mock.fault.hes != HES_REFUSED;
  mock.hes_asked = mock.hes_on;
  return mock.hes_on;
}

void hes_refused_late(void) {
  mock.hes_on = mock.hes_asked = false;
  fire_state(STATE_ERROR, NOT_SUPPORTED, "HES could not be set up; semaphore tracing is used");
}

void hes_context(void) {
  if (mock.hes_on && mock.fault.hes == HES_LATE) hes_refused_late();
}

API int cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
  check_process("cuptiActivityEnableLatencyTimestamps");
  if (enable && (mock.hes_asked || mock.hes_on)) forbid("cuptiActivityEnableLatencyTimestamps with HES");
  mock.latency = enable;
  return OK;
}

API int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) {
  (void)clock;
  forbid("cuptiActivityRegisterTimestampCallback: kernel timestamps become zero or ticks");
}

static int set_common(int attribute, const size_t *size, const void *value) {
  if (!size || !value) return INVALID_PARAMETER;
  if (attribute == ATTRIBUTE_ZEROED_OUT) {
    if (*size < 1) return SIZE_NOT_SUFFICIENT;
    mock.zeroed_out = *(const uint8_t *)value;
  }
  if (attribute <= 10) return attribute >= 0 ? OK : INVALID_PARAMETER;
  return INVALID_PARAMETER;
}

static int get_common(int attribute, size_t *size, void *value) {
  if (!size || !value) return INVALID_PARAMETER;
  if (*size < 1) return SIZE_NOT_SUFFICIENT;
  memset(value, 0, *size);
  if (attribute == ATTRIBUTE_ZEROED_OUT) *(uint8_t *)value = mock.zeroed_out;
  return attribute >= 0 && attribute <= 10 ? OK : INVALID_PARAMETER;
}

API int cuptiActivitySetAttribute(int attribute, size_t *size, void *value) {
  check_process("cuptiActivitySetAttribute");
  if (MOCK_V2_PREVIEW) check_generation("cuptiActivitySetAttribute", 1);
  return set_common(attribute, size, value);
}

API int cuptiActivityGetAttribute(int attribute, size_t *size, void *value) {
  check_process("cuptiActivityGetAttribute");
  if (MOCK_V2_PREVIEW) check_generation("cuptiActivityGetAttribute", 1);
  return get_common(attribute, size, value);
}

#if MOCK_V2_PREVIEW
API int cuptiActivitySetAttribute_v2(void *subscriber, int attribute, size_t *size, void *value) {
  const char *call = "cuptiActivitySetAttribute_v2";
  check_process(call);
  check_generation(call, 2);
  if (subscriber ? subscriber != mock.subscriber || mock.generation != 2 : mock.fault.null_invalid) return INVALID_PARAMETER;
  if (!size || !value) return INVALID_PARAMETER;
  if (*size < 1) return SIZE_NOT_SUFFICIENT;
  switch (attribute) {
  case ATTRIBUTE_HES:
    if (!*(const uint8_t *)value) return mock.hes_on ? NOT_SUPPORTED : OK;
    if (mock.any_kind) forbid("%s(ENABLE_HES) after an activity kind was enabled", call);
    return ask_hes(call);
  case ATTRIBUTE_LATENCY: return cuptiActivityEnableLatencyTimestamps(*(const uint8_t *)value);
  case ATTRIBUTE_CLOCK: forbid("%s(TIMESTAMP_CALLBACK)", call);
  case ATTRIBUTE_STATE: return INVALID_PARAMETER; // read only
  default: return set_common(attribute, size, value);
  }
}

API int cuptiActivityGetAttribute_v2(void *subscriber, int attribute, size_t *size, void *value) {
  check_process("cuptiActivityGetAttribute_v2");
  check_generation("cuptiActivityGetAttribute_v2", 2);
  if (subscriber && (subscriber != mock.subscriber || mock.generation != 2)) return INVALID_PARAMETER;
  if (!size || !value) return INVALID_PARAMETER;
  if (*size < 1) return SIZE_NOT_SUFFICIENT;
  if (attribute == ATTRIBUTE_STATE || attribute == ATTRIBUTE_HES) {
    memset(value, 0, *size);
    *(uint8_t *)value = attribute == ATTRIBUTE_HES ? mock.hes_on : others() ? 0 : mock.generation ? 1 : 2;
    return OK;
  }
  return get_common(attribute, size, value);
}
#endif
