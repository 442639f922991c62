#include "capture/inside.h"

struct inside inside_stripes[INSIDE_STRIPES];

uint32_t inside_count(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < INSIDE_STRIPES; i++) count += atomic_load(&inside_stripes[i].threads);
  return count;
}
