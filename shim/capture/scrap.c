// The reserve. CUPTI holds a buffer for each thread that launches, and full ones until their last record has ended, so
// there must be many; and since each comes back the moment it is complete, whatever the sender does, it is the records
// in flight that bound them.
#include "capture/scrap.h"

#include "capture/stack.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static uint8_t *memory; // SCRAPS, and the one that is never used up
static stack idle;
static linked links[SCRAPS];

bool scrap_open(void) {
  if (memory != NULL) return true;
  void *map = mmap(NULL, (size_t)(SCRAPS + 1) * SCRAP_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  memory = map;
  memset(memory, 0, (size_t)SCRAPS_WARM * SCRAP_BYTES);
  for (uint32_t i = SCRAPS; i-- > 0;) stack_push(&idle, links, i);
  return true;
}

uint8_t *scrap_lend(uint64_t *size) {
  int64_t index = stack_pop(&idle, links);
  *size = SCRAP_BYTES;
  return memory + (size_t)(index < 0 ? SCRAPS : index) * SCRAP_BYTES;
}

static uint64_t index_of(const uint8_t *bytes) { return ((uintptr_t)bytes - (uintptr_t)memory) / SCRAP_BYTES; }

bool scrap_owns(const uint8_t *bytes, bool *alone) {
  if (memory == NULL || index_of(bytes) > SCRAPS) return false;
  *alone = index_of(bytes) < SCRAPS;
  return true;
}

void scrap_return(uint8_t *bytes) {
  if (index_of(bytes) < SCRAPS) stack_push(&idle, links, (uint32_t)index_of(bytes));
}
