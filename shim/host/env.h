// Settings: environment variables, read once.
#ifndef KERNHES_ENV_H
#define KERNHES_ENV_H

#include <stdint.h>

enum env_name {
  ENV_ENDPOINT,
  ENV_TOKEN,
  ENV_TOKEN_FILE,
  ENV_COLLECTOR_UID,
  ENV_HES,
  ENV_SOFTWARE,
  ENV_WINDOWS,
  ENV_SETTLE,
  ENV_WINDOWS_CUPTI,
  ENV_RUN,
  ENV_RANK,
  ENV_ENGINE,
  ENV_ENGINE_VERSION,
  ENV_MODEL,
  ENV_MANIFEST,
  ENV_BUFFER_MB,
  ENV_POOL_BUFFERS,
  ENV_POOL_BUFFER_KB,
  ENV_EVENTS_KB,
  ENV_FLUSH_MS,
  ENV_LINGER_MS,
  ENV_CPUS,
  ENV_CUPTI,
  ENV_CUDA_NEXT,
  ENV_NVTX_NEXT,
  ENV_LOG,
  ENV_COUNT
};

// env_load reads the environment; later calls do nothing. Call it before anything below.
void env_load(void);

// env_text gives the value or the default; "" if there is neither. Valid for the life of the process.
const char *env_text(enum env_name name);

// env_number gives a number within its range, or the default if what was set is no number.
uint64_t env_number(enum env_name name);

#endif
