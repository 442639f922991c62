// Engines, and what is told of each.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "told.h"

static void put(uint8_t *b, size_t at, size_t size, uint64_t value) { memcpy(b + at, &value, size); }

// ran gives CUPTI a kernel's record, which has ended.
static void ran(uint32_t correlation, uint64_t node, const char *name) {
  static uint8_t bytes[16][216];
  static mock_record records[16];
  uint8_t *b = bytes[correlation];
  put(b, 0, 4, 10);
  put(b, 16, 8, 1700000000000000000 + correlation), put(b, 24, 8, 1700000000000000100 + correlation);
  put(b, 32, 8, 1700000000000000100 + correlation);
  put(b, 40, 4, 3), put(b, 44, 4, 1), put(b, 52, 4, 100 + correlation), put(b, 92, 4, correlation), put(b, 144, 8, node);
  if (node) put(b, 156, 4, node >> 32);
  records[correlation] = (mock_record){.bytes = b, .name = name, .size = 216};
  mock->offer(&(mock_offer){.records = &records[correlation], .count = 1, .at_once = true});
}

static void launch(uint32_t cbid, uint32_t correlation) {
  mock_launch l = {.cbid = cbid, .correlation = correlation};
  mock->launch_enter(&l), mock->launch_exit(&l);
}

static void all_sorts(void) {
  launch(307, 1), ran(1, 0, "eager");
  mock_launch l = {.cbid = 652, .correlation = 2};
  mock->launch_enter(&l);
  mock->node_created(0x500000001, 0);
  mock->launch_exit(&l);
  mock->node_created(0x500000002, 2);
  mock->node_cloned(0x500000001, 0x600000001);
  launch(514, 3), ran(3, 0x600000001, "in a graph");
  static const uint32_t others[] = {442, 477, 478, 515, 653};
  for (uint32_t i = 0; i < 5; i++) launch(others[i], 4 + i), ran(4 + i, 0, "other");
  launch(200, 9); // no launch
  mock->graph_destroyed(5);
}

#define ALL_EVENTS                                                                                                          \
  "launch 1\nlaunch 2\nnode 500000001 type 0 in launch\ncaptured 2\nnode 500000002 type 2\nclone 600000001 of 500000001\n" \
  "launch 3 graph\nlaunch 4\nlaunch 5\nlaunch 6\nlaunch 7 graph\nlaunch 8\nforget 5\n"
#define ALL_RECORDS                                                                                                   \
  "kernel 1 eager node 0 device 3 grid 101\nkernel 3 in a graph node 600000001 device 3 grid 103\n"                  \
  "kernel 4 other node 0 device 3 grid 104\nkernel 5 other node 0 device 3 grid 105\nkernel 6 other node 0 device 3 grid 106\n" \
  "kernel 7 other node 0 device 3 grid 107\nkernel 8 other node 0 device 3 grid 108\n"

static bool delivered(void) { return mock->pending() == 0; }

// finish leaves when all has been flushed, and what was dropped been asked for: exit itself waits for that only so long.
static void finish(void) {
  CHECK(soon(delivered));
  if (getenv("KERNHES_MOCK_FAULT")) usleep(300000); // three flushes
  leave(0);
}

static void whole(void) {
  init();
  mock->context_created(1, 0);
  all_sorts();
  finish();
}

// is_traced gives CUPTI a record and tells whether it was recorded at all.
static bool is_traced(uint32_t correlation, const char *name) {
  mock_stats before, after;
  mock->stats(&before);
  ran(correlation, 0, name);
  while (mock->pending() > 1) usleep(1000); // one may lie in a buffer that is not full
  mock->stats(&after);
  return after.untraced == before.untraced;
}

static bool lets_go(void) { return !is_traced(1, "before"); }
static bool takes_again(void) { return is_traced(2, "after"); }

// The collector tells it to yield at its first kernel; afterwards it traces again.
static void yielding(void) {
  init();
  mock->context_created(1, 0);
  launch(307, 1), launch(307, 2);
  CHECK(soon(lets_go) && soon(takes_again));
  finish();
}

// Another client is there at first.
static void second(void) {
  init();
  mock->context_created(1, 0);
  CHECK(!is_traced(1, "before") && soon(takes_again)); // of a launch that nobody saw
  launch(307, 3), ran(3, 0, "then");
  finish();
}

const told_case told_cases[] = {
    {"software", "130001", "KERNHES_SOFTWARE=on KERNHES_ENGINE_VERSION=9 KERNHES_MODEL=a_model KERNHES_TOKEN=t CUDA_VISIBLE_DEVICES=2,3", whole, 0,
     "hello run=r rank=3 engine=e engine_version=9 model=a model cupti_version=130001 visible_devices=2,3 token=t mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 12080", "12080", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=26 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 12090", "12090", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=28 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 130000", "130000", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130000 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 130200", "130200", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130200 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 130300", "130300", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130300 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"software 130400", "130400", "KERNHES_SOFTWARE=on KERNHES_HES=off", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130400 mode=software subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 130500", "130500", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130500 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 130401", "130401", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130401 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES not by itself", "130500", "KERNHES_HES=auto KERNHES_MOCK_HES=accepted KERNHES_SOFTWARE=on", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130500 mode=software subscribed=1 mode_reason=HES is on only with KERNHES_HES=on, since it has not been seen on hardware\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 12080", "12080", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=26 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 12090", "12090", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=28 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 130001", "130001", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 130200", "130200", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130200 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES 130300", "130300", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130300 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES refused 12090", "12090", "KERNHES_HES=on KERNHES_SOFTWARE=on", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=28 mode=software subscribed=1 mode_reason=cuptiActivityEnableHWTrace: 27, CUPTI_ERROR_NOT_SUPPORTED\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES refused 130300", "130300", "KERNHES_HES=on KERNHES_SOFTWARE=on", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130300 mode=software subscribed=1 mode_reason=HES was asked for, but is not on after cuInit\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES refused, nothing else 12090", "12090", "KERNHES_HES=on", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=28 mode=off subscribed=0 mode_reason=cuptiActivityEnableHWTrace: 27, CUPTI_ERROR_NOT_SUPPORTED; KERNHES_SOFTWARE is off\nbye 1\n",
     "", ""},
    {"HES refused, nothing else 130300", "130300", "KERNHES_HES=on", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130300 mode=off subscribed=0 mode_reason=HES was asked for, but is not on after cuInit; KERNHES_SOFTWARE is off\nbye 1\n",
     "", ""},
    {"HES refused late 12090", "12090", "KERNHES_HES=on KERNHES_MOCK_HES=late KERNHES_SOFTWARE=on", whole, 0,
     "* mode=software subscribed=1 mode_reason=HES was refused late: 27, HES could not be set up; semaphore tracing is used\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES refused late 130500", "130500", "KERNHES_HES=on KERNHES_MOCK_HES=late KERNHES_SOFTWARE=on", whole, 0,
     "* mode=software subscribed=1 mode_reason=HES was refused late: 27, HES could not be set up; semaphore tracing is used\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"HES with a subscriber", "130500", "KERNHES_HES=on KERNHES_MOCK_HES=accepted KERNHES_MOCK_NULL=invalid", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130500 mode=hes subscribed=1 mode_reason=\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"manifest", "130001", "KERNHES_SOFTWARE=on KERNHES_HES=off MANIFEST=1", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=software subscribed=1 mode_reason=\nmanifest {\"kernels\":[]}\nbye 1\n",
     ALL_EVENTS, ALL_RECORDS},
    {"dropped", "130001", "KERNHES_SOFTWARE=on KERNHES_HES=off KERNHES_MOCK_FAULT=drop=2", whole, 0,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=software subscribed=1 mode_reason=\nlost 3 by 1\nbye 1\n",
     ALL_EVENTS, 
     "kernel 1 eager node 0 device 3 grid 101\nkernel 4 other node 0 device 3 grid 104\n"
     "kernel 6 other node 0 device 3 grid 106\nkernel 8 other node 0 device 3 grid 108\n"},
    {"yields 12090", "12090", "KERNHES_SOFTWARE=on KERNHES_HES=off", yielding, 100,
     "hello run=r rank=3 engine=e cupti_version=28 mode=software subscribed=1 mode_reason=\ninfo mode=off subscribed=1 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=off subscribed=0 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=software subscribed=1 mode_reason=\nbye 1\n",
     "launch 1\nlaunch 2\n", "kernel 1 before node 0 device 3 grid 101\nkernel 2 after node 0 device 3 grid 102\n"},
    {"yields 130001", "130001", "KERNHES_SOFTWARE=on KERNHES_HES=off", yielding, 100,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=software subscribed=1 mode_reason=\ninfo mode=off subscribed=1 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=off subscribed=0 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=software subscribed=1 mode_reason=\nbye 1\n",
     "launch 1\nlaunch 2\n", "kernel 1 before node 0 device 3 grid 101\nkernel 2 after node 0 device 3 grid 102\n"},
    {"yields 130300", "130300", "KERNHES_SOFTWARE=on KERNHES_HES=off", yielding, 100,
     "hello run=r rank=3 engine=e cupti_version=130300 mode=software subscribed=1 mode_reason=\ninfo mode=off subscribed=1 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=off subscribed=0 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=software subscribed=1 mode_reason=\nbye 1\n",
     "launch 1\nlaunch 2\n", "kernel 1 before node 0 device 3 grid 101\nkernel 2 after node 0 device 3 grid 102\n"},
    {"yields, HES 130500", "130500", "KERNHES_HES=on KERNHES_MOCK_HES=accepted", yielding, 100,
     "hello run=r rank=3 engine=e cupti_version=130500 mode=hes subscribed=1 mode_reason=\ninfo mode=off subscribed=1 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=off subscribed=0 mode_reason=yielded to another user of CUPTI, as the collector asked\n"
     "info mode=hes subscribed=1 mode_reason=\nbye 1\n",
     "launch 1\nlaunch 2\n", "kernel 1 before node 0 device 3 grid 101\nkernel 2 after node 0 device 3 grid 102\n"},
    {"busy first 12090", "12090", "KERNHES_SOFTWARE=on KERNHES_HES=off KERNHES_MOCK_FAULT=busy=1", second, 0,
     "hello run=r rank=3 engine=e cupti_version=28 mode=off subscribed=0 mode_reason=subscribing: 39, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED\ninfo mode=software subscribed=1 mode_reason=\nbye 1\n",
     "launch 3\n", 
     "kernel 2 after node 0 device 3 grid 102 BEFORE ITS LAUNCH\nkernel 3 then node 0 device 3 grid 103\n"},
    {"busy first, HES 130001", "130001", "KERNHES_HES=on KERNHES_MOCK_HES=accepted KERNHES_SOFTWARE=on KERNHES_MOCK_FAULT=busy=1", second, 0,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=off subscribed=0 mode_reason=subscribing: 39, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED\ninfo mode=software subscribed=1 mode_reason=HES cannot be turned on after the first context\nbye 1\n",
     "launch 3\n", 
     "kernel 2 after node 0 device 3 grid 102 BEFORE ITS LAUNCH\nkernel 3 then node 0 device 3 grid 103\n"},
    {"busy first 130001", "130001", "KERNHES_SOFTWARE=on KERNHES_HES=off KERNHES_MOCK_FAULT=busy=1", second, 0,
     "hello run=r rank=3 engine=e cupti_version=130001 mode=off subscribed=0 mode_reason=subscribing: 39, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED\ninfo mode=software subscribed=1 mode_reason=\nbye 1\n",
     "launch 3\n", 
     "kernel 2 after node 0 device 3 grid 102 BEFORE ITS LAUNCH\nkernel 3 then node 0 device 3 grid 103\n"},
    {0},
};
