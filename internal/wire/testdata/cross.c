// Writes a frame of each kind that the shim sends, and reads each that the collector sends, by wire.h alone.
//   cross write    frames to standard output, with the values that wire_test.go expects
//   cross read     frames from standard input, a line of text each to standard output
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire.h"

static uint64_t number;

static void frame(uint16_t kind, uint16_t flags, uint64_t n, const void *body, size_t length) {
  kw_frame f = {.length = (uint32_t)length, .kind = kind, .flags = flags, .number = n};
  fwrite(&f, sizeof f, 1, stdout);
  fwrite(body, length, 1, stdout);
}

static void send(uint16_t kind, const void *body, size_t length) { frame(kind, 0, ++number, body, length); }

static size_t put(uint8_t *to, const void *from, size_t length) {
  memcpy(to, from, length);
  return length;
}

static size_t pair(uint8_t *to, const char *key, const char *value) {
  kw_pair p = {.key_length = (uint16_t)strlen(key), .value_length = (uint32_t)strlen(value)};
  size_t n = put(to, &p, sizeof p);
  n += put(to + n, key, strlen(key));
  return n + put(to + n, value, strlen(value));
}

static kw_event head(uint16_t kind, size_t length) {
  return (kw_event){.kind = kind, .length = (uint16_t)length, .thread = 70u + kind, .time = 1000u + kind};
}

static void write_all(void) {
  uint8_t b[1024] = {0};
  size_t n;

  kw_hello hello = {.magic = KW_MAGIC, .version = KW_VERSION, .session = 0x1122334455667788};
  n = put(b, &hello, sizeof hello);
  n += pair(b + n, "run", "r1");
  n += pair(b + n, "rank", "3");
  frame(KW_HELLO, 0, 0, b, n);

  n = pair(b, "mode", "hes");
  frame(KW_INFO, KW_PINNED, 0, b, n);

  kw_base base = {.number = 41, .correlation = 42, .launches = 1};
  frame(KW_BASE, 0, 0, &base, sizeof base);

  memset(b, 0, sizeof b);
  kw_string string = {.id = 5, .length = 3};
  n = put(b, &string, sizeof string);
  memcpy(b + n, "abc", 3);
  send(KW_STRINGS, b, n + 8);

  memset(b, 0, sizeof b);
  n = 0;
  kw_push push = {.head = head(KW_PUSH, sizeof push + 8), .domain = 2, .text = 0, .length = 5, .depth = 4};
  n += put(b + n, &push, sizeof push);
  memcpy(b + n, "hello", 5);
  n += 8;
  kw_pop pop = {.head = head(KW_POP, sizeof pop), .domain = 2, .depth = KW_DEPTH_UNKNOWN};
  n += put(b + n, &pop, sizeof pop);
  kw_start start = {.head = head(KW_START, sizeof start), .range = 77, .domain = 6, .text = 5};
  n += put(b + n, &start, sizeof start);
  kw_end end = {.head = head(KW_END, sizeof end), .range = 77};
  n += put(b + n, &end, sizeof end);
  kw_launch launch = {.head = head(KW_LAUNCH, sizeof launch), .correlation = 99, .flags = KW_LAUNCH_GRAPH};
  n += put(b + n, &launch, sizeof launch);
  kw_launch captured = {.head = head(KW_CAPTURED, sizeof captured), .correlation = 98};
  n += put(b + n, &captured, sizeof captured);
  kw_node_created created = {
      .head = head(KW_NODE_CREATED, sizeof created), .node = 0x700000008, .flags = KW_NODE_IN_LAUNCH, .type = 1};
  n += put(b + n, &created, sizeof created);
  kw_node_cloned cloned = {.head = head(KW_NODE_CLONED, sizeof cloned), .original = 0x700000008, .clone = 0x900000008};
  n += put(b + n, &cloned, sizeof cloned);
  kw_graph_forgotten graph = {.head = head(KW_GRAPH_FORGOTTEN, sizeof graph), .graph = 7};
  n += put(b + n, &graph, sizeof graph);
  kw_node_forgotten node = {.head = head(KW_NODE_FORGOTTEN, sizeof node), .node = 0x700000008};
  n += put(b + n, &node, sizeof node);
  kw_domain domain = {.head = head(KW_DOMAIN, sizeof domain + 8), .domain = 2, .length = 4};
  n += put(b + n, &domain, sizeof domain);
  memcpy(b + n, "NCCL", 4);
  n += 8;
  kw_schema schema = {.head = head(KW_SCHEMA, sizeof schema + 2 * sizeof(kw_schema_entry) + 8), .schema = 0x1000005, .domain = 2, .size = 24,
                      .pack = 4, .length = 2 * sizeof(kw_schema_entry) + 8, .count = 3, .type = 1};
  n += put(b + n, &schema, sizeof schema);
  kw_schema_entry entry = {.type = 18, .flags = 1, .offset = 0, .detail = 7, .length = 4};
  n += put(b + n, &entry, sizeof entry);
  memcpy(b + n, "name", 4);
  n += 8;
  entry = (kw_schema_entry){.type = 0x1000018, .flags = 2, .offset = 8};
  n += put(b + n, &entry, sizeof entry);
  kw_payload payload = {.head = head(KW_PAYLOAD, sizeof payload + 8), .range = 77, .domain = 2, .depth = 4, .schema = 0x1000005, .length = 3,
                        .size = 24, .site = KW_START};
  n += put(b + n, &payload, sizeof payload);
  memcpy(b + n, "\1\2\3", 3);
  n += 8;
  kw_tracing on = {.head = head(KW_TRACING_ON, sizeof on), .window = 5, .reason = KW_TRACING_ORDERED};
  n += put(b + n, &on, sizeof on);
  kw_tracing off = {.head = head(KW_TRACING_OFF, sizeof off), .window = 6, .reason = KW_TRACING_OVERDUE};
  n += put(b + n, &off, sizeof off);
  send(KW_EVENTS, b, n);

  kw_kernel kernel = {.start = 1, .end = 2, .node = 3, .correlation = 4, .name = 5, .stream = 6, .device = 7,
                      .registers = 8, .grid_x = 9, .grid_y = 10, .grid_z = 11, .block_x = 12, .block_y = 13,
                      .block_z = 14, .context = 15, .shared_static = 16, .shared_dynamic = 17};
  send(KW_KERNELS, &kernel, sizeof kernel);
  kw_copy copy = {.start = 1, .end = 2, .node = 3, .bytes = 4, .correlation = 5, .stream = 6, .device = 7, .kind = 22, .copy_kind = 10};
  send(KW_COPIES, &copy, sizeof copy);
  kw_flushed flushed = {.now = 1, .flushed = 2, .monotonic = 3, .flags = KW_READABLE};
  send(KW_FLUSHED, &flushed, sizeof flushed);
  kw_lost lost = {.reason = KW_LOST_SHIM_BUFFER, .what = KW_OF_KERNELS, .count = 3, .from = 4, .to = 5};
  send(KW_LOST, &lost, sizeof lost);
  kw_stat stats[2] = {{.key = KW_STAT_CPU_NS, .value = 10}, {.key = KW_STAT_BUFFER_REQUESTS, .value = 11}};
  send(KW_STATS, stats, sizeof stats);
  send(KW_MANIFEST, "{}", 2);
  kw_clock clock = {.before = 1, .cupti = 2, .after = 3, .monotonic = 4};
  send(KW_CLOCK, &clock, sizeof clock);
  kw_bye bye = {.reason = KW_BYE_EXIT, .kernels = 2, .copies = 3};
  send(KW_BYE, &bye, sizeof bye);
}

static void read_all(void) {
  kw_frame f;
  uint8_t b[8192];
  while (fread(&f, sizeof f, 1, stdin) == 1 && f.length <= sizeof b && fread(b, 1, f.length, stdin) == f.length) {
    printf("kind %u flags %u number %" PRIu64 ": ", f.kind, f.flags, f.number);
    if (f.kind == KW_WELCOME && f.length == sizeof(kw_welcome)) {
      const kw_welcome *w = (const void *)b;
      printf("magic %d version %u acknowledged %" PRIu64 " received %" PRIu64 "\n", w->magic == KW_MAGIC, w->version, w->acknowledged, w->received);
    } else if (f.kind == KW_ACK && f.length == sizeof(kw_ack)) {
      printf("number %" PRIu64 "\n", ((const kw_ack *)(const void *)b)->number);
    } else if (f.kind == KW_REFUSED && f.length >= sizeof(kw_refused)) {
      const kw_refused *r = (const void *)b;
      printf("code %u text %.*s\n", r->code, (int)r->length, (const char *)(r + 1));
    } else {
      printf("%u bytes\n", f.length);
    }
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "write") == 0) write_all();
  else if (argc == 2 && strcmp(argv[1], "read") == 0) read_all();
  else return 2;
  return 0;
}
