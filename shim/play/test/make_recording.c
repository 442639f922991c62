// Writes a small recording that the bundled ones are not: three threads taking turns, a launch captured on one while
// another launches, two contexts, peer copies, records out of order, overlap, an unnamed kernel, a leaked range, a
// domain that was created before, a frame of an unknown kind, CUPTI's own drops, schemas and payloads.
// usage: make_recording FILE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;
static uint64_t now = 1700000000000000000;

static void u32(uint32_t v) { fwrite(&v, 4, 1, out); }
static void u64(uint64_t v) { fwrite(&v, 8, 1, out); }
static void head(uint32_t kind, size_t length) { u32(kind), u32((uint32_t)length); }
static void text(const char *s) { fwrite(s, 1, strlen(s), out); }

static void push(uint32_t thread, uint32_t domain, const char *s) {
  head(5, 24 + strlen(s)), u64(now += 1000), u32(thread), u32(1), u32(domain), u32(0), text(s);
}
static void pop(uint32_t thread, uint32_t domain) { head(6, 24), u64(now += 1000), u32(thread), u32(0), u32(domain), u32(0); }
static void payload(uint32_t way, size_t n) {
  u64(0x1000005), u32(way), u32((uint32_t)n);
  for (size_t i = 0; i < n; i++) fputc(0xab, out);
}
static void push_payload(uint32_t thread, uint32_t domain, uint32_t way, size_t n, const char *s) {
  head(15, 40 + n + strlen(s)), u64(now += 1000), u32(thread), u32(1), u32(domain), u32(0), payload(way, n), text(s);
}
static void pop_payload(uint32_t thread, uint32_t domain, size_t n) {
  head(16, 40 + n), u64(now += 1000), u32(thread), u32(0), u32(domain), u32(0), payload(1, n);
}
static void schema(uint32_t domain, uint32_t type, const char *entry) {
  head(14, 24 + 40 + strlen(entry)), u64(0x1000005), u32(domain), u32(8), u32(0), u32(type);
  u64(18), u64(0), u64(0), u64(0), u32((uint32_t)strlen(entry)), u32(0), text(entry);
}
static void launch(uint32_t thread, uint32_t id, uint32_t cbid) {
  head(4, 24), u64(now += 1000), u32(id), u32(cbid), u32(thread), u32(0);
}
static void node(uint64_t id, uint32_t thread) { head(8, 16), u64(id), u32(0), u32(thread); }
static void captured(uint32_t id) { head(13, 4), u32(id); }

static uint8_t raw[1 << 16];
static size_t n_raw;

static void kernel(uint64_t start, uint64_t length, uint32_t device, uint32_t id, uint64_t name, uint64_t node_id) {
  uint8_t *r = raw + n_raw;
  uint64_t end = start + length;
  uint32_t kind = 10, context = device + 1, graph = (uint32_t)(node_id >> 32);
  memcpy(r, &kind, 4), memcpy(r + 16, &start, 8), memcpy(r + 24, &end, 8), memcpy(r + 40, &device, 4), memcpy(r + 44, &context, 4);
  memcpy(r + 92, &id, 4), memcpy(r + 104, &name, 8), memcpy(r + 144, &node_id, 8), memcpy(r + 156, &graph, 4);
  n_raw += 216;
}
static void copy(uint32_t kind, size_t size, uint64_t start) {
  uint8_t *r = raw + n_raw;
  uint64_t end = start + 500;
  memcpy(r, &kind, 4), memcpy(r + 16, &start, 8), memcpy(r + 24, &end, 8);
  n_raw += size;
}
static void flush(void) { head(2, n_raw), fwrite(raw, 1, n_raw, out), memset(raw, 0, n_raw), n_raw = 0; }

int main(int argc, char **argv) {
  if (argc != 2 || !(out = fopen(argv[1], "wb"))) return 2;
  const char *meta = "{\"format\":2,\"cupti\":130001,\"headers\":130001,\"kernel_record\":216,\"pid\":7,\"rank\":\"5\"}";
  uint64_t begin = now;
  head(1, strlen(meta)), text(meta);
  head(99, 5), text("later");
  head(12, 8), u32(3), text("NCCL");
  head(3, 8 + 6), u64(0x1000), text("gemm_a");
  push(7, 0, "step:decode seq=4,seqs=1");
  push(8, 3, "ncclAllReduce"), push(9, 6, "earlier domain");
  // Captured on thread 8 while 9 and 7 launch eagerly; nodes that no launch made do not count.
  launch(8, 10, 652), launch(9, 11, 307), node(1ull << 32, 8), launch(7, 12, 307), captured(10);
  node(1ull << 32 | 1, 8), node(2ull << 32, 8), head(9, 16), u64(1ull << 32), u64(2ull << 32);
  head(11, 8), u32(1), u32(2);
  pop(8, 3), pop(9, 6);
  // Payloads: with a push in its attributes and by the extension's own, with pops, and of no bytes.
  schema(3, 1, "NCCL communicator ID"), schema(3, 0x80, "Sum");
  push_payload(8, 3, 0, 5, "ncclAllGather"), push_payload(8, 3, 1, 3, ""), pop_payload(8, 3, 2), pop_payload(8, 3, 0);
  push(9, 0, "leaked \xc3\xa4");
  for (uint32_t i = 0; i < 40; i++) launch(7 + i % 3, 20 + i, i % 4 ? 307 : 514);
  pop(7, 0);
  kernel(begin + 30000, 90000000, 0, 11, 0x1000, 0); // long: others end before it
  kernel(begin + 31000, 400, 1, 12, 0x2000, 0);      // never named
  for (uint32_t i = 0; i < 40; i++) kernel(begin + 60000 + (i * 7919 % 40) * 1000, 1500, i % 2, 20 + i, 0x1000, i % 4 ? 0 : 2ull << 32);
  copy(1, 96, begin + 70000), copy(22, 96, begin + 71000), copy(2, 88, begin + 72000);
  flush();
  head(7, 8), u64(3);
  head(10, 32), u64(now += 100000000), u64(now + 1), u64(now + 2), u64(5);
  return fclose(out) != 0;
}
