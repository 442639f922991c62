// Memory runs out at each allocation in turn: nothing crashes, numbers of frames go on, what was lost is counted, and once
// there is memory again everything works.
#include "capture/encode.h"
#include "capture/events.h"
#include "capture/names.h"
#include "capture/order.h"
#include "check.h"
#include "host/clock.h"
#include "host/env.h"
#include "transport/link.h"
#include "transport/pairs.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// Linked with --wrap: so many allocations still succeed.
static long left = -1; // and one more that fails; -1: all
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);

static long calls;

static bool granted(void) {
  calls++;
  if (left > 0) left--;
  return left != 0;
}

void *__wrap_malloc(size_t n) { return granted() ? __real_malloc(n) : NULL; }
void *__wrap_calloc(size_t n, size_t m) { return granted() ? __real_calloc(n, m) : NULL; }
void *__wrap_realloc(void *p, size_t n) { return granted() ? __real_realloc(p, n) : NULL; }

static int listener;
static struct losses losses;
static struct queue q = {.bound = 2000, .losses = &losses};
static struct encoder e = {.queue = &q, .names = {.registered = names_registered, .domain = names_domain}};
static struct order o;
static struct link l;
static uint64_t given;

static void give(void *to, const kw_event *event) {
  given++;
  encode_event(to, event);
}

static void listen_at(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char endpoint[80];
  int n = snprintf(address.sun_path, sizeof address.sun_path, "/tmp/kernhes-memory-test.%d", (int)getpid());
  snprintf(endpoint, sizeof endpoint, "unix://%.*s", n, address.sun_path);
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  setenv("KERNHES_TOKEN", "token", 1);
  env_load();
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 16) == 0);
}

// happen has one of each thing happen that allocates.
static void happen(uint32_t round) {
  static const nvtx_schema_entry entries[] = {{.type = 5, .name = "field"}};
  nvtx_schema schema = {.fields = SCHEMA_TYPE | SCHEMA_ENTRIES | SCHEMA_COUNT | SCHEMA_SIZE | SCHEMA_ID, .type = 1,
                        .entries = entries, .count = 1, .size = 4, .id = NVTX_SCHEMA_STATIC + round};
  char text[64];
  uint32_t domain = names_index(NAMES_DOMAIN, names_add(NAMES_DOMAIN, "a domain", 8, NULL));
  uint64_t id = schemas_add(domain, &schema, 0);
  uint32_t index = schemas_find(domain, id);
  for (uint32_t i = 0; i < 3; i++) {
    struct text t = {.bytes = text, .length = (uint32_t)snprintf(text, sizeof text, "range %u", i)};
    events_push(0, 7, domain, i + 1, t);
    if (index != 0) events_payload((struct bringing){.site = KW_PUSH, .domain = domain, .depth = i + 1}, id, index, "1234", 4, 4);
    // The next waits for a round: its clock is ahead.
    events_push(clock_now() + 1000000000, 7, domain, i + 1, t);
    events_start(0, 8, round * 10 + i, 0, t);
    events_node_created((uint64_t)(round + 1) << 32 | i, KW_NODE_IN_LAUNCH, 0);
    events_launch(KW_LAUNCH, round * 10 + i, 0);
  }
  for (int i = 0; i < 3 && !order_round(&o, give, &e); i++) continue;
  kw_kernel kernel = {.start = 5, .end = 6, .name = encode_name(&e, text, (uint32_t)snprintf(text, sizeof text, "kernel %u", round))};
  encode_kernel(&e, &kernel);
  encode_copy(&e, &(kw_copy){.start = 7, .end = 8});
  encode_frame(&e, KW_MANIFEST, "{}", 2);
  struct bytes pairs = {0};
  pairs_set(&pairs, "mode", "off");
  encode_frame(&e, KW_INFO, pairs.data, (uint32_t)pairs.used);
  bytes_free(&pairs);
  encode_close(&e);
  queue_trim(&q); // which folds: strings, nodes, ranges, domains, schemas
}

// answer is the collector: it says WELCOME to whoever is there.
static int answer(void) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (fd < 0) return -1;
  struct {
    kw_frame head;
    kw_welcome body;
  } w = {{.length = sizeof(kw_welcome), .kind = KW_WELCOME}, {.magic = KW_MAGIC, .version = KW_VERSION}};
  if (send(fd, &w, sizeof w, MSG_NOSIGNAL) < 0) return fd; // the link had no memory for HELLO, and is gone
  return fd;
}

static void talk(void) {
  l.retry_at = 0;
  link_step(&l, &q, &e.strings);
  int fd = answer();
  for (int i = 0; i < 3; i++) link_step(&l, &q, &e.strings);
  link_break(&l, &q, "the test goes on");
  if (fd >= 0) close(fd);
}

static void check_queue(void) {
  uint64_t before = 0;
  for (const struct frame *f = q.first; f != NULL; f = f->next) {
    CHECK(f->number > before && f->number <= q.number && (f->husk || f->bytes != NULL));
    before = f->number;
  }
}

// check_counts: of the five kernels and copies each is still there, or counted as lost.
static void check_counts(void) {
  uint64_t kernels = 0, copies = 0;
  CHECK(queue_resume(&q, 0, 0)); // nothing was received: what was sent and dropped is lost
  for (const struct frame *f = q.first; f != NULL; f = f->next) {
    uint64_t records = (f->size - sizeof(kw_frame)) / sizeof(kw_kernel);
    if (f->kind == KW_KERNELS) kernels += records;
    if (f->kind == KW_COPIES) copies += records;
  }
  for (kw_lost lost; losses_take(&losses, &lost);) {
    if (lost.what == KW_OF_KERNELS) kernels += lost.count;
    if (lost.what == KW_OF_COPIES) copies += lost.count;
  }
  CHECK_EQUAL(kernels, 5);
  CHECK_EQUAL(copies, 5);
}

// life has memory run out after so many allocations; it returns how many a life takes.
static long life(long allocations) {
  CHECK(events_open(64u << 10));
  o.ring = events_ring();
  link_open(&l, 5, NULL);
  pairs_set(&q.base.pairs, "rank", "3");
  left = allocations;
  calls = 0;
  for (uint32_t round = 0; round < 4; round++) {
    happen(round);
    talk();
    check_queue();
  }
  long took = calls;
  left = -1;
  happen(9);
  talk();
  check_queue();
  struct bytes snapshot = {0};
  CHECK(base_snapshot(&q.base, &e.strings, 1, &snapshot) && snapshot.used >= sizeof(kw_frame) + sizeof(kw_base));
  kw_base base;
  memcpy(&base, snapshot.data + snapshot.used - sizeof base, sizeof base);
  CHECK(base.number == q.base.number);
  CHECK(l.connects > 0);
  CHECK(given > 0 && ring_used(o.ring) == 0); // all events came out, or were counted
  bytes_free(&snapshot);
  link_close(&l, &q);
  check_counts();
  queue_free(&q);
  encode_free(&e);
  order_free(&o);
  return took;
}

int main(void) {
  listen_at();
  int pair[2], status;
  long all = 0;
  CHECK(pipe(pair) == 0);
  for (long k = -1; k < all; k += k < 100 ? 1 : 7) { // each in a process of its own: names and schemas only grow
    pid_t child = fork();
    if (child == 0) {
      long took = life(k < 0 ? -1 : k + 1);
      CHECK(write(pair[1], &took, sizeof took) == sizeof took);
      exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) fprintf(stderr, "memory ran out after %ld allocations\n", k);
    CHECK_EQUAL(status, 0);
    long took;
    CHECK(read(pair[0], &took, sizeof took) == sizeof took);
    if (k < 0) all = took;
  }
  CHECK(all > 50);
  unlink(env_text(ENV_ENDPOINT) + 7);
  return 0;
}
