// Each misuse that the mock forbids, once, in a process of its own: it must end by abort with the right line.
// usage: strict VERSION LIBRARY; prints what went wrong, and exits 1 then.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../mock.h"

enum { DRIVER = 1, RESOURCE = 3, STATE = 6, SIZE = 64 << 10 };

static long version;
static const char *library_path;
static void *library, *sub;
static const mock_control *mock;

static void *symbol(const char *name) {
  void *s = dlsym(library, name);
  if (!s) fprintf(stderr, "no %s\n", name), _exit(9);
  return s;
}
#define CU(name, ...) ((int (*)())symbol("cupti" #name))(__VA_ARGS__)

// A client that does one thing in one of its callbacks.
static void (*in_request)(void), (*in_complete)(void), (*in_callback)(void);
static uint8_t *buffers[64];
static int n_buffers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { GOOD, NO_BUFFER, NO_SIZE, NO_LIMIT, NOTHING, CROOKED, SMALL, DIRTY, SAME, OVERLAPPING } giving;

static void request(uint8_t **b, size_t *size, size_t *limit) {
  if (in_request) in_request();
  if (giving == NOTHING) return;
  uint8_t *fresh = calloc(1, SIZE + 8);
  pthread_mutex_lock(&lock); // a launching thread may ask at the same time as the worker
  int n = n_buffers++;
  buffers[n] = fresh;
  pthread_mutex_unlock(&lock);
  fresh[4097] = giving == DIRTY;
  *b = giving == NO_BUFFER ? NULL : giving == CROOKED ? fresh + 4 : fresh;
  if (giving >= SAME && n) *b = giving == SAME ? buffers[0] : buffers[0] + 4096;
  if (giving != NO_SIZE) *size = giving == NO_BUFFER ? 0 : giving == SMALL ? 128 : SIZE;
  if (giving != NO_LIMIT) *limit = 1; // one record a buffer: every record asks for another
}
static void request2(uint8_t **b, size_t *size, size_t *limit, void *info) { (void)info; request(b, size, limit); }
static void complete(void *c, uint32_t s, uint8_t *b, size_t size, size_t valid) {
  (void)c, (void)s, (void)b, (void)size, (void)valid;
  if (in_complete) in_complete();
}
static void complete2(uint8_t *b, size_t size, size_t valid, void *info) { (void)info; complete(NULL, 0, b, size, valid); }
static void callback(void *user, int domain, uint32_t cbid, const void *data) {
  (void)user, (void)domain, (void)cbid, (void)data;
  if (in_callback) in_callback();
}

static int v2(void) { return version >= 130300; }
static struct { size_t size; const char *name; char *old; size_t old_size; uint64_t many; } params;

static int subscribe2(void) {
  params.size = version >= 130200 ? 40 : 32;
  return CU(Subscribe_v2, &sub, callback, NULL, &params);
}
static void subscribe(void) { if (v2() ? subscribe2() : CU(Subscribe, &sub, callback, NULL)) _exit(8); }
static int reg(void) { return v2() ? CU(ActivityRegisterCallbacks_v2, sub, request2, complete2) : CU(ActivityRegisterCallbacks, request, complete); }
static int enable(int kind) { return v2() ? CU(ActivityEnable_v2, sub, kind, NULL) : CU(ActivityEnable, kind); }
static int dropped(void) {
  size_t n;
  return v2() ? CU(ActivityGetNumDroppedRecords_v2, sub, NULL, 0, &n) : CU(ActivityGetNumDroppedRecords, NULL, 0, &n);
}
static void flush(void) { CU(ActivityFlushAll, 0); }
static void force(void) { CU(ActivityFlushAll, 1); }
static void read_drops(void) { dropped(); }
static void unsubscribe(void) { CU(Unsubscribe, sub); }

static void up(void) { mock->driver_initialised(); }
static void context(void) { mock->context_created(1, 0); }
static void trace(void) {
  subscribe();
  reg();
  enable(10);
  up();
  context();
}
static void offer(void) {
  static uint64_t kernel[27] = {[0] = 10, [2] = 100, [3] = 200, [11] = (uint64_t)5 << 32};
  static const mock_record records[2] = {{(const uint8_t *)kernel, "k", 216}, {(const uint8_t *)kernel, "k", 216}};
  mock->offer(&(mock_offer){.records = records, .count = 2, .at_once = true});
}
static void give(int what) { giving = what; trace(); offer(); flush(); }
static void launch(void) { mock_launch l = {.cbid = 307, .correlation = 1}; mock->launch_enter(&l); mock->launch_exit(&l); }
static uint8_t on = 1;
static size_t one = 1;
static int hes_attribute(void) { return CU(ActivitySetAttribute_v2, sub, 13, &one, &on); }
static int hw_trace(void) { return CU(ActivityEnableHWTrace, 1); }

// The cases. A client that does what the name says:
static void flush_in_request(void) { in_request = flush; give(GOOD); }
static void flush_in_complete(void) { in_complete = flush; give(GOOD); }
static void flush_in_resource(void) { in_callback = flush; subscribe(); CU(EnableCallback, 1, sub, RESOURCE, 1); context(); }
static void flush_in_state(void) {
  setenv("KERNHES_MOCK_HES", "late", 1);
  in_callback = flush;
  mock->start(true);
  subscribe();
  CU(EnableCallback, 1, sub, STATE, 2);
  up(), hw_trace(), context();
}
static void flush_in_launch(void) { in_callback = flush; trace(); CU(EnableCallback, 1, sub, DRIVER, 307); offer(); launch(); }
static void force_and_go_on(void) { trace(); force(); flush(); }
static void force_long_before_exit(void) { trace(); force(); mock->exiting(); }
static void force_then_finalize(void) { trace(); force(); unsubscribe(); CU(Finalize); mock->exiting(); }
static void force_at_exit(void) { trace(); mock->exiting(); force(); }
static void no_buffer(void) { mock->start(false); give(NO_BUFFER); }
static void no_size(void) { give(NO_SIZE); }
static void no_limit(void) { give(NO_LIMIT); }
static void nothing(void) { give(NOTHING); }
static void crooked(void) { give(CROOKED); }
static void small(void) { give(SMALL); }
static void same(void) { give(SAME); }
static void overlapping(void) { give(OVERLAPPING); }
static void good(void) { give(GOOD); read_drops(); mock->exiting(); force(); }
static void not_zeroed(void) {
  subscribe();
  v2() ? CU(ActivitySetAttribute_v2, sub, 5, &one, &on) : CU(ActivitySetAttribute, 5, &one, &on);
  giving = DIRTY;
  reg(), enable(10), up(), context(), launch();
}
static void v2_after_v1(void) { CU(Subscribe, &sub, callback, NULL); CU(ActivityRegisterCallbacks_v2, sub, request2, complete2); }
static void v1_after_v2(void) { subscribe2(); CU(ActivityRegisterCallbacks, request, complete); }
static void v1_clock_in_v2(void) { uint64_t t; subscribe2(); CU(GetTimestamp, &t); }
static void other_size(void) { params.size = version >= 130200 ? 32 : 40; CU(Subscribe_v2, &sub, callback, NULL, &params); }
static void long_name(void) { params.name = "a name of a subscriber that is far longer than fifty-three bytes"; subscribe2(); }
static void short_old_name(void) { static char old[32]; params.old = old, params.old_size = 32; subscribe2(); }
static void hes_before_init(void) { subscribe(); if (hw_trace()) _exit(7); }
static void hes_after_context(void) { subscribe(), up(), context(), hw_trace(); }
static void hes_in_time(void) { subscribe(), up(); if (hw_trace() != 27) _exit(7); }
static void attribute_after_kinds(void) { subscribe(), enable(10), hes_attribute(); }
static void attribute_after_context(void) { subscribe(), up(), context(), hes_attribute(); }
static void latency_with_hes(void) {
  setenv("KERNHES_MOCK_HES", "accepted", 1);
  mock->start(true);
  subscribe(), up(), hw_trace();
  CU(ActivityEnableLatencyTimestamps, 1);
}
static void subscribe_twice(void) { subscribe(), subscribe(); }
static void register_alone(void) { CU(ActivityRegisterCallbacks, request, complete); }
static void enable_alone(void) { CU(ActivityEnable, 10); }
static void drops_in_request(void) { in_request = read_drops; give(GOOD); }
static void drops_in_complete(void) { in_complete = read_drops; give(GOOD); }
static void impatient(void) { setenv("KERNHES_MOCK_FAULT", "patience=1000", 1), mock->start(true); }
static void drops_under_lock(void) { impatient(), trace(); pthread_mutex_lock(&lock); read_drops(); }
static void flush_under_lock(void) { impatient(), trace(); offer(); pthread_mutex_lock(&lock); flush(); }
static void serial_kernels(void) { subscribe(), enable(3); }
static void graph_trace(void) { subscribe(), enable(51); }
static uint64_t my_clock(void) { return 1; }
static void own_clock(void) { CU(ActivityRegisterTimestampCallback, my_clock); }
static void finalize_at_once(void) { trace(), unsubscribe(), CU(Finalize); }
static void finalize_with_another(void) { setenv("KERNHES_MOCK_FAULT", "busy", 1); mock->start(true); flush(); CU(Finalize); }
static void guest(const char *fault) { setenv("KERNHES_MOCK_FAULT", fault, 1), mock->start(true); }
static void disable(void) { if (v2()) CU(ActivityDisable_v2, sub, 10); else CU(ActivityDisable, 10); }
static void leave_a_buffer(void) { guest("guest=60000"), trace(), launch(), flush(), disable(), unsubscribe(); }
static void leave_and_come_back(void) {
  guest("guest=300"), trace(), launch(), offer(), flush(), disable(), force(), unsubscribe();
  if ((v2() ? subscribe2() : CU(Subscribe, &sub, callback, NULL)) != 39) _exit(7);
  usleep(400000);
  subscribe(), reg(), enable(10), launch(), offer(), flush(), read_drops();
}
static void finalize_a_guest(void) { guest("guest=60000"), trace(), flush(), disable(), force(), unsubscribe(), CU(Finalize); }
static void every_driver_call(void) { subscribe(), CU(EnableDomain, 1, sub, DRIVER); }
static void every_runtime_call(void) { subscribe(), CU(EnableDomain, 1, sub, 2); }
static void everything(void) { subscribe(), CU(EnableAllDomains, 1, sub); }
static void kineto_kind(void) { CU(ActivityPushExternalCorrelationId, 3, (uint64_t)1); }
static void unsubscribe_inside(void) { in_callback = unsubscribe; trace(); CU(EnableCallback, 1, sub, DRIVER, 307); launch(); }
static void forked(void) {
  int status;
  subscribe();
  if (!fork()) flush(), _exit(0);
  wait(&status);
  if (WIFSIGNALED(status)) abort();
}
static void write_to(size_t at) { trace(), launch(); buffers[0][at] ^= 1; offer(), flush(); }
static void write_inside(void) { write_to(5000); }
static void write_at_end(void) { write_to(SIZE - 1); }
static void read_early(void) {
  void *r = NULL;
  trace(), launch();
  v2() ? CU(ActivityGetNextRecord_v2, sub, buffers[0], (size_t)216, &r) : CU(ActivityGetNextRecord, buffers[0], (size_t)216, &r);
}
static void read_too_far(void) {
  void *r = NULL;
  trace(), offer(), flush();
  v2() ? CU(ActivityGetNextRecord_v2, sub, buffers[0], (size_t)SIZE, &r) : CU(ActivityGetNextRecord, buffers[0], (size_t)SIZE, &r);
}


// Leaving CUPTI. A client that does what the name says:
static uint64_t unix_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void let_go(void) { disable(), flush(), unsubscribe(), force(); }
static void replay_until(uint64_t ns) { mock->replays(unix_now() + ns, mock->tracing()); }
static void finalize_in_replay(void) { trace(), replay_until(60000000000), let_go(), CU(Finalize); }
static void finalize_after_replay(void) { trace(), replay_until(1000000), usleep(2000), let_go(), CU(Finalize); }
static void stay(void) { usleep(500000); }
static void *launching(void *unused) { return launch(), unused; }
static void finalize_in_callback(void) {
  pthread_t thread;
  trace(), CU(EnableCallback, 1, sub, DRIVER, 307);
  in_callback = stay;
  if (pthread_create(&thread, NULL, launching, NULL)) abort();
  usleep(100000), let_go(), CU(Finalize);
}
static void *replaying(void *unused) {
  mock_launch l = {.cbid = 514, .correlation = 2};
  usleep(100000);
  return mock->launch_enter(&l), unused;
}
static void replay_in_finalize(void) {
  pthread_t thread;
  setenv("KERNHES_MOCK_FAULT", "finalize-slow=500", 1);
  mock->start(true);
  trace(), launch(), let_go();
  if (pthread_create(&thread, NULL, replaying, NULL)) abort();
  CU(Finalize);
}
static void call_after_finalize(void) { trace(), let_go(), CU(Finalize), flush(); }
static void walk_after_finalize(void) {
  void *r = NULL;
  trace(), offer(), let_go(), CU(Finalize);
  CU(ActivityGetNextRecord, buffers[0], (size_t)0, &r);
}
static void finalize_and_come_back(void) { trace(), let_go(), CU(Finalize), subscribe(), reg(), enable(10), flush(), let_go(), CU(Finalize); }

static const struct {
  const char *name;
  void (*run)(void);
  const char *says; // NULL: it is allowed
  long from, until;
} cases[] = {
#define CASE(name, says, from, until) {#name, name, says, from, until}
    CASE(flush_in_request, "FlushAll inside the buffer request callback", 0, 999999),
    CASE(flush_in_complete, "FlushAll inside the buffer complete callback", 0, 999999),
    CASE(flush_in_resource, "FlushAll inside a resource callback", 0, 999999),
    CASE(flush_in_state, "FlushAll inside a state callback", 0, 999999),
    CASE(flush_in_launch, NULL, 0, 999999),
    CASE(force_and_go_on, "FlushAll(1) while tracing goes on", 0, 999999),
    CASE(force_long_before_exit, "FlushAll(1) while tracing goes on", 0, 999999),
    CASE(force_then_finalize, NULL, 0, 999999),
    CASE(force_at_exit, NULL, 0, 999999),
    CASE(no_buffer, "returned no buffer", 0, 12080),
    CASE(no_buffer, NULL, 12090, 999999),
    CASE(no_size, "did not set *size", 0, 999999),
    CASE(no_limit, "did not set *maxNumRecords", 0, 999999),
    CASE(nothing, "did not set *buffer", 0, 999999),
    CASE(crooked, "not aligned", 0, 999999),
    CASE(small, "a buffer of 128 bytes", 0, 999999),
    CASE(same, "still owns", 0, 999999),
    CASE(overlapping, "overlaps", 0, 999999),
    CASE(good, NULL, 0, 999999),
    CASE(not_zeroed, "is not zero", 0, 999999),
    CASE(v2_after_v1, "with a subscriber made by cuptiSubscribe (V1)", 130200, 999999),
    CASE(v1_after_v2, "with a subscriber made by cuptiSubscribe_v2 (V2)", 130200, 999999),
    CASE(v1_after_v2, NULL, 130000, 130199),
    CASE(v1_clock_in_v2, "cuptiGetTimestamp (V1)", 130300, 999999),
    CASE(v1_clock_in_v2, NULL, 130000, 130299),
    CASE(other_size, "structSize", 130000, 999999),
    CASE(long_name, "subscriberName", 130000, 999999),
    CASE(short_old_name, "oldSubscriberName", 130000, 999999),
    CASE(hes_before_init, "before cuInit", 0, 130299),
    CASE(hes_before_init, NULL, 130300, 999999),
    CASE(hes_after_context, "after the first context", 0, 999999),
    CASE(hes_in_time, NULL, 0, 999999),
    CASE(attribute_after_kinds, "after an activity kind", 130300, 999999),
    CASE(attribute_after_context, "after the first context", 130300, 999999),
    CASE(latency_with_hes, "with HES", 0, 999999),
    CASE(subscribe_twice, "unsubscribe first", 0, 999999),
    CASE(register_alone, "without a subscriber", 0, 999999),
    CASE(enable_alone, "without a subscriber", 0, 999999),
    CASE(drops_in_request, "inside the buffer request callback", 0, 999999),
    CASE(drops_in_complete, "inside the buffer complete callback", 0, 999999),
    CASE(drops_under_lock, "lock that the caller holds", 0, 999999),
    CASE(flush_under_lock, "lock that the caller holds", 0, 999999),
    CASE(serial_kernels, "serialises", 0, 999999),
    CASE(graph_trace, "GRAPH_TRACE", 0, 999999),
    CASE(own_clock, "TimestampCallback", 0, 999999),
    CASE(finalize_at_once, "without a flush", 0, 999999),
    CASE(finalize_with_another, "another client", 0, 999999),
    CASE(leave_a_buffer, "would be handed that", 0, 999999),
    CASE(leave_and_come_back, NULL, 0, 999999),
    CASE(finalize_a_guest, "another client", 0, 999999),
    CASE(every_driver_call, "every driver call", 0, 999999),
    CASE(every_runtime_call, "every runtime call", 0, 999999),
    CASE(everything, "EnableAllDomains", 0, 999999),
    CASE(kineto_kind, "Kineto", 0, 999999),
    CASE(unsubscribe_inside, "inside a callback", 0, 999999),
    CASE(forked, "forked child", 0, 999999),
    CASE(write_inside, "was altered", 0, 999999),
    CASE(write_at_end, "was altered", 0, 999999),
    CASE(read_early, "a buffer that CUPTI owns", 0, 999999),
    CASE(read_too_far, "valid bytes", 0, 999999),
    CASE(finalize_in_replay, "replay in flight", 0, 999999),
    CASE(finalize_after_replay, NULL, 0, 999999),
    CASE(finalize_in_callback, "a thread in a callback", 0, 999999),
    CASE(replay_in_finalize, "while cuptiFinalize runs", 0, 999999),
    CASE(call_after_finalize, "after cuptiFinalize", 0, 999999),
    CASE(walk_after_finalize, "after cuptiFinalize", 0, 130299),
    CASE(finalize_and_come_back, NULL, 0, 999999),
};

// run_case runs one in a child and gives what it wrote and how it ended.
static int run_case(void (*run)(void), char *said, size_t size) {
  int ends[2], status;
  if (pipe(ends)) abort();
  pid_t child = fork();
  if (!child) {
    dup2(ends[1], 2);
    close(ends[0]), close(ends[1]);
    if (!(library = dlopen(library_path, RTLD_NOW))) fprintf(stderr, "%s\n", dlerror()), _exit(9);
    mock = symbol(MOCK_CONTROL_SYMBOL);
    mock->start(true);
    run();
    _exit(0);
  }
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; n < size - 1 && (got = read(ends[0], said + n, size - 1 - n)) > 0;) n += (size_t)got;
  said[n] = 0;
  close(ends[0]);
  waitpid(child, &status, 0);
  return status;
}

// Symbols that come with a version; before it they must be missing.
static int wrong_symbols(void) {
  static const struct { const char *name; long from; } symbols[] = {
      {"cuptiActivityEnableHWTrace", 0},           {"cuptiGetGraphExecId", 0},
      {"cuptiSubscribe_v2", 130000},               {"cuptiActivityRegisterCallbacks_v2", 130200},
      {"cuptiActivitySetAttribute_v2", 130200},    {"cuptiActivityGetStructSize", 130200},
      {"cuptiActivityGetNextRecord_v2", 130300},   {"cuptiGetTimestamp_v2", 130300},
      {"cuptiActivityGetNumDroppedRecords_v2", 130300}};
  void *opened = dlopen(library_path, RTLD_NOW);
  int wrong = !opened;
  for (size_t i = 0; opened && i < sizeof symbols / sizeof *symbols; i++) {
    if ((dlsym(opened, symbols[i].name) != NULL) == (version >= symbols[i].from)) continue;
    printf("FAIL %s: want it from %ld on\n", symbols[i].name, symbols[i].from);
    wrong++;
  }
  return wrong;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  version = atol(argv[1]);
  library_path = argv[2];
  int failed = 0, ran = 1;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (version < cases[i].from || version > cases[i].until) continue;
    char said[4096];
    int status = run_case(cases[i].run, said, sizeof said);
    const char *line = "mock cupti: FORBIDDEN: ";
    bool right = cases[i].says ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, line) && strstr(said, cases[i].says)
                               : WIFEXITED(status) && !WEXITSTATUS(status);
    ran++;
    if (right) continue;
    failed++;
    printf("FAIL %s: want %s; status %#x, said: %s\n", cases[i].name, cases[i].says ? cases[i].says : "no complaint", (unsigned)status, said);
  }
  failed += wrong_symbols();
  printf("strict %ld: %d cases, %d failed\n", version, ran, failed);
  return failed != 0;
}
