// What an NVTX range costs the engine's thread, push and pop together, through NVTX's own tables: ns (the least and the
// median of many runs), and instructions where the kernel counts them. usage: make -C shim bench
#include "capture/asked.h"
#include "capture/calls.h"
#include "capture/mode.h"
#include "capture/nvtx_abi.h"
#include "check.h"
#include "host/clock.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAIRS 1000u // a run: its events fit the ring
#define RUNS 2000u

int InitializeInjectionNvtx2(nvtx_get_table get);

static nvtx_function core[NVTX_SLOTS], core2[NVTX_SLOTS];
static nvtx_function *core_slots[NVTX_SLOTS + 1], *core2_slots[NVTX_SLOTS + 1];

static int module_table(int module, nvtx_function ***table, unsigned int *size) {
  if (module != NVTX_CORE && module != NVTX_CORE2) return 0;
  *table = module == NVTX_CORE ? core_slots : core2_slots;
  *size = NVTX_SLOTS;
  return 1;
}

static const void *get_table(uint32_t id) {
  static const nvtx_callbacks callbacks = {sizeof callbacks, module_table};
  return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

static void empty(void) {}
static void drain(void) {
  static uint8_t to[1 << 20];
  while (ring_take(events_ring(), to, sizeof to) > 0) continue;
}

static int counter = -1;

static uint64_t instructions(void) {
  uint64_t n = 0;
  return counter >= 0 && read(counter, &n, sizeof n) == sizeof n ? n : 0;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void *domain; // NULL: the default domain

static void run_of_pairs(void) {
  int (*push)(const char *) = (int (*)(const char *))core[CORE_PUSH_A];
  int (*pop)(void) = (int (*)(void))core[CORE_POP];
  int (*push_in)(void *, const nvtx_attributes *) = (int (*)(void *, const nvtx_attributes *))core2[CORE2_PUSH_EX];
  int (*pop_in)(void *) = (int (*)(void *))core2[CORE2_POP];
  nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = MESSAGE_ASCII, .message = "attention.qkv_proj"};
  for (uint32_t i = 0; i < PAIRS && domain == NULL; i++) push("attention.qkv_proj"), pop();
  for (uint32_t i = 0; i < PAIRS && domain != NULL; i++) push_in(domain, &a), pop_in(domain);
}

static void measure(const char *what) {
  static double ns[RUNS];
  uint64_t counted = 0;
  for (uint32_t run = 0; run < RUNS; run++) {
    drain();
    uint64_t before = instructions(), began = clock_tick();
    run_of_pairs();
    ns[run] = (double)(clock_tick() - began) / PAIRS;
    counted += instructions() - before;
  }
  qsort(ns, RUNS, sizeof *ns, ascending);
  printf("| %-44s | %6.1f | %6.1f |", what, ns[0], ns[RUNS / 2]);
  if (counted > 0) printf(" %6.1f |\n", (double)counted / PAIRS / RUNS);
  else printf("      - |\n");
}

int main(void) {
  for (int i = 1; i < NVTX_SLOTS; i++) {
    core[i] = core2[i] = empty;
    core_slots[i] = &core[i];
    core2_slots[i] = &core2[i];
  }
  struct perf_event_attr count = {.size = sizeof count, .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
                                  .exclude_kernel = 1, .exclude_hv = 1};
  counter = (int)syscall(SYS_perf_event_open, &count, 0, -1, -1, 0);
  CHECK(InitializeInjectionNvtx2(get_table) == 1 && events_open(4u << 20));
  void *other = ((void *(*)(const char *))core2[CORE2_CREATE_A])("other");
  printf("| %-44s | least  | median | instr. |\n| --- | --- | --- | --- |\n", "a range, push and pop");
  calls_live();
  ((int (*)(const char *))core[CORE_PUSH_A])("step:decode");
  measure("traced: posted");
  mode_set(MODE_OFF, "off");
  measure("not traced, nothing asked: posted");
  asked_ranges(1, 0);
  measure("not traced, deeper than asked");
  asked_place(0, 0, 1);
  measure("not traced, deeper than asked, one place");
  domain = other;
  measure("not traced, in a domain that is not asked for");
  domain = NULL;
  calls_off();
  measure("nobody listens");
  return 0;
}
