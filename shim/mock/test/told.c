// What a collector is told of a process: an engine's calls on one side, the text of what came on the other. Each case is a
// process that takes the shim in, as the mock's version of CUPTI and the settings have it.
// usage: mock-told MOCK-FOLDER LIBKERNHES
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <poll.h>
#include "../../transport/wire.h"
#include "told.h"

// One case's transcript: what the shim says of itself, events, and records. Times are left out.
static struct {
  char state[4096], events[4096], records[4096], names[64][128];
  bool launched[64];
  unsigned yields, kernels, lost[8];
} told;

// add appends a line, unless it is the last one already.
static void add(char to[4096], const char *format, ...) {
  char line[1024], *last = to;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  for (char *end; (end = strchr(last, '\n')) && end[1];) last = end + 1;
  if (!strcmp(last, line)) return;
  size_t used = strlen(to);
  snprintf(to + used, 4096 - used, "%s", line);
}

// pairs tells the ones that every process gives alike.
static void pairs(const char *what, const uint8_t *body, size_t length) {
  static const char *const keys[] = {"run", "rank", "engine", "engine_version", "model", "cupti_version", "visible_devices",
                                     "token", "mode", "subscribed", "mode_reason"};
  char line[1024];
  int n = snprintf(line, sizeof line, "%s", what);
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    for (size_t at = 0; at < length;) {
      kw_pair p;
      memcpy(&p, body + at, sizeof p);
      const char *key = (const char *)body + at + sizeof p;
      if (p.key_length == strlen(keys[k]) && !memcmp(key, keys[k], p.key_length))
        n += snprintf(line + n, sizeof line - (size_t)n, " %s=%.*s", keys[k], (int)p.value_length, key + p.key_length);
      at += sizeof p + p.key_length + p.value_length;
    }
  }
  add(told.state, "%s\n", line);
}

static void event(const kw_event *e) {
  const void *at = e;
  switch (e->kind) {
  case KW_LAUNCH: {
    const kw_launch *l = at;
    told.launched[l->correlation % 64] = true;
    add(told.events, "launch %u%s\n", l->correlation, l->flags & KW_LAUNCH_GRAPH ? " graph" : "");
    break;
  }
  case KW_CAPTURED: add(told.events, "captured %u\n", ((const kw_launch *)at)->correlation); break;
  case KW_NODE_CREATED: {
    const kw_node_created *n = at;
    add(told.events, "node %llx type %u%s\n", (unsigned long long)n->node, n->type, n->flags & KW_NODE_IN_LAUNCH ? " in launch" : "");
    break;
  }
  case KW_NODE_CLONED: {
    const kw_node_cloned *c = at;
    add(told.events, "clone %llx of %llx\n", (unsigned long long)c->clone, (unsigned long long)c->original);
    break;
  }
  case KW_GRAPH_FORGOTTEN: add(told.events, "forget %u\n", ((const kw_graph_forgotten *)at)->graph); break;
  default: add(told.events, "event %u\n", e->kind);
  }
}

static void record(const kw_kernel *k) {
  add(told.records, "kernel %u %s node %llx device %u grid %u%s\n", k->correlation, told.names[k->name % 64], (unsigned long long)k->node,
      k->device, k->grid_x, told.launched[k->correlation % 64] ? "" : " BEFORE ITS LAUNCH");
}

static void frame(const kw_frame *f, const uint8_t *body) {
  const void *at = body;
  switch (f->kind) {
  case KW_HELLO: pairs("hello", body + sizeof(kw_hello), f->length - sizeof(kw_hello)); break;
  case KW_INFO: pairs("info", body, f->length); break;
  case KW_STRINGS:
    for (size_t i = 0; i < f->length;) {
      const kw_string *s = (const void *)(body + i);
      snprintf(told.names[s->id % 64], sizeof *told.names, "%.*s", (int)s->length, (const char *)(s + 1));
      i += sizeof *s + ((s->length + 7) & ~7u);
    }
    break;
  case KW_EVENTS:
    for (size_t i = 0; i < f->length; i += ((const kw_event *)(const void *)(body + i))->length) event((const void *)(body + i));
    break;
  case KW_KERNELS:
    for (size_t i = 0; i < f->length; i += sizeof(kw_kernel), told.kernels++) record((const void *)(body + i));
    break;
  case KW_MANIFEST: add(told.state, "manifest %.*s\n", (int)f->length, (const char *)body); break;
  case KW_LOST: {
    const kw_lost *l = at;
    told.lost[l->reason % 8] += (unsigned)l->count;
    break;
  }
  case KW_BYE: {
    const kw_bye *b = at;
    for (unsigned reason = 0; reason < 8; reason++)
      if (told.lost[reason]) add(told.state, "lost %u by %u\n", told.lost[reason], reason);
    add(told.state, "bye %u%s\n", b->reason, b->kernels == told.kernels && b->copies == 0 ? "" : " WITH OTHER COUNTS");
    break;
  }
  }
}

static bool read_all(int fd, void *to, size_t n) {
  for (size_t got = 0; got < n;) {
    ssize_t r = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 30000) == 1 ? recv(fd, (char *)to + got, n - got, 0) : -1;
    if (r <= 0) return false;
    got += (size_t)r;
  }
  return true;
}

static void say(int fd, uint16_t kind, const void *body, uint32_t length) {
  struct {
    kw_frame head;
    uint8_t body[64];
  } f = {.head = {.length = length, .kind = kind}};
  memcpy(f.body, body, length);
  if (send(fd, &f, sizeof f.head + length, MSG_NOSIGNAL) < 0) return;
}

// listen_to is the collector, until the process is gone. yield: it is told to yield for so many ms once it traces.
static void listen_to(int listener, uint64_t yield_ms) {
  static uint8_t body[1 << 20];
  if (poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 30000) != 1) return;
  int fd = accept(listener, NULL, NULL);
  for (kw_frame f; read_all(fd, &f, sizeof f) && f.length <= sizeof body && read_all(fd, body, f.length);) {
    frame(&f, body);
    if (f.kind == KW_HELLO) say(fd, KW_WELCOME, &(kw_welcome){.magic = KW_MAGIC, .version = KW_VERSION}, sizeof(kw_welcome));
    if (f.number) say(fd, KW_ACK, &(kw_ack){.number = f.number}, sizeof(kw_ack));
    if (f.kind == KW_KERNELS && yield_ms && !told.yields++)
      say(fd, KW_CONTROL, &(kw_control){.command = KW_COMMAND_YIELD, .argument = {yield_ms * 1000000}}, sizeof(kw_control));
  }
  close(fd);
}

static void set(const char *settings) {
  char all[1024];
  snprintf(all, sizeof all, "%s", settings);
  for (char *rest = all, *one; (one = strsep(&rest, " "));) {
    char *value = strchr(one, '=');
    if (!value) continue;
    *value++ = 0;
    for (char *c = value; *c; c++)
      if (*c == '_' && !strcmp(one, "KERNHES_MODEL")) *c = ' ';
    setenv(one, value, 1);
  }
}

static bool same(const char *name, const char *what, const char *got, const char *want) {
  size_t n = strlen(got), end = *want == '*' ? strlen(want + 1) : 0;
  if (end && n >= end && !strcmp(got + n - end, want + 1)) return true; // how it begins is left open
  if (!strcmp(got, want)) return true;
  printf("FAIL %s: %s are\n%swant\n%s", name, what, got, want);
  return false;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  setvbuf(stdout, NULL, _IONBF, 0);
  char folder[] = "/tmp/mock-told-XXXXXX", endpoint[64], manifest[64];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!mkdtemp(folder)) return 2;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
  snprintf(endpoint, sizeof endpoint, "unix://%s/s", folder);
  snprintf(manifest, sizeof manifest, "%s/m", folder);
  FILE *f = fopen(manifest, "w");
  if (!f || fputs("{\"kernels\":[]}", f) < 0 || fclose(f)) return perror(manifest), 2;
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), failed = 0;
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) return perror("listen"), 2;
  size_t count = 0;
  for (const told_case *c = told_cases; c->name; c++, count++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/libcupti.so.%.2s", argv[1], c->version, c->version);
    cupti_path = path, shim_path = argv[2];
    memset(&told, 0, sizeof told);
    pid_t child = fork();
    if (!child) {
      close(listener);
      alarm(60);
      setenv("KERNHES_ENDPOINT", endpoint, 1);
      setenv("KERNHES_POOL_BUFFERS", "4", 1);
      setenv("KERNHES_LINGER_MS", "20000", 1);
      setenv("KERNHES_RUN", "r", 1), setenv("KERNHES_RANK", "3", 1), setenv("KERNHES_ENGINE", "e", 1);
      if (strstr(c->settings, "MANIFEST")) setenv("KERNHES_MANIFEST", manifest, 1);
      set(c->settings);
      c->run();
      _exit(WRONG);
    }
    listen_to(listener, c->yield_ms);
    int code = ended(child);
    if (code) printf("FAIL %s: ended with %d\n", c->name, code);
    bool good = !code;
    good &= same(c->name, "what it says of itself", told.state, c->state);
    good &= same(c->name, "events", told.events, c->events);
    good &= same(c->name, "records", told.records, c->records);
    failed += !good;
  }
  unlink(address.sun_path), unlink(manifest), rmdir(folder);
  printf("told: %zu cases, %d failed\n", count, failed);
  return failed != 0;
}
