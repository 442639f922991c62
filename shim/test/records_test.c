// Activity buffers into the wire's records. The offsets are those of CUPTI's header; each field has a value of its own.
#include "capture/callbacks.h"
#include "capture/cupti.h"
#include "capture/records.h"
#include "capture/scrap.h"
#include "check.h"

#include <pthread.h>
#include <string.h>

// A buffer as CUPTI fills it: records of any size, end to end.
static struct {
  size_t at[16];
  size_t count;
  int after; // what CUPTI answers behind the last
} laid;

static struct losses losses;
static struct queue q = {.bound = 1 << 28, .losses = &losses};
static struct encoder e = {.queue = &q};
static struct records r = {.encoder = &e, .losses = &losses};

static int next_record(uint8_t *bytes, size_t valid, void **record) {
  (void)valid;
  for (size_t i = 0; i < laid.count; i++) {
    if (*record != NULL && bytes + laid.at[i] <= (uint8_t *)*record) continue;
    *record = bytes + laid.at[i];
    return CUPTI_OK;
  }
  return laid.after;
}

static void put(uint8_t *record, size_t at, size_t size, uint64_t value) { memcpy(record + at, &value, size); }

static uint8_t *lay(uint8_t *bytes, size_t at, uint32_t kind) {
  laid.at[laid.count++] = at;
  put(bytes + at, 0, 4, kind);
  return bytes + at;
}

static void begin(void) {
  laid.count = 0;
  laid.after = CUPTI_END_OF_BUFFER;
}

// convert has a buffer walked that lies at the very end of its memory: AddressSanitizer sees what is read behind it.
static void convert(const uint8_t *bytes, size_t valid) {
  uint8_t *exact = malloc(valid);
  CHECK(exact != NULL);
  memcpy(exact, bytes, valid);
  struct buffer b = {.bytes = exact, .valid = valid};
  records_convert(&r, &b);
  free(exact);
  encode_close(&e);
}

// body gives the body of the next frame, which must be of that kind and length.
static const void *body(uint16_t kind, size_t length) {
  struct frame *f = queue_send(&q);
  CHECK(f != NULL);
  CHECK_EQUAL(f->kind, kind);
  CHECK_EQUAL(f->size - sizeof(kw_frame), length);
  return f->bytes + sizeof(kw_frame);
}

static void check_lost(uint32_t what, uint64_t count) {
  kw_lost l;
  CHECK(losses_take(&losses, &l));
  CHECK_EQUAL(l.reason, KW_LOST_SHIM_MALFORMED);
  CHECK_EQUAL(l.what, what);
  CHECK_EQUAL(l.count, count);
  CHECK(!losses_take(&losses, &l));
}

static void nothing_lost(void) {
  kw_lost l;
  CHECK(!losses_take(&losses, &l));
}

static const char name[] = "gemm_kernel";

static void a_kernel(void) {
  static uint8_t bytes[208];
  begin();
  uint8_t *p = lay(bytes, 0, 10);
  put(p, 6, 2, 168);            // registersPerThread
  put(p, 16, 8, 1700000000000000001);
  put(p, 24, 8, 1700000000000000002);
  put(p, 32, 8, 3);             // completed: not taken
  put(p, 40, 4, 4);             // deviceId
  put(p, 44, 4, 0x50005);       // contextId: its low 16 bits
  put(p, 48, 4, 6);             // streamId
  put(p, 52, 4, 2147483647);    // gridX, at CUDA's limit
  put(p, 56, 4, 65535);
  put(p, 60, 4, 9);
  put(p, 64, 4, 1024);          // blockX
  put(p, 68, 4, 11);
  put(p, 72, 4, 12);
  put(p, 76, 4, 13);            // static shared memory
  put(p, 80, 4, 233472);        // dynamic
  put(p, 92, 4, 0xfffffffe);    // correlationId
  put(p, 104, 8, (uintptr_t)name);
  put(p, 144, 8, 0x1600000017); // graphNodeId
  convert(bytes, sizeof bytes);
  const kw_string *s = body(KW_STRINGS, sizeof *s + 16);
  CHECK(s->id == 1 && s->length == 11 && memcmp(s + 1, name, 11) == 0);
  const kw_kernel *k = body(KW_KERNELS, 64);
  CHECK_EQUAL(k->start, 1700000000000000001);
  CHECK_EQUAL(k->end, 1700000000000000002);
  CHECK_EQUAL(k->node, 0x1600000017);
  CHECK_EQUAL(k->correlation, 0xfffffffe);
  CHECK_EQUAL(k->name, 1);
  CHECK_EQUAL(k->stream, 6);
  CHECK_EQUAL(k->device, 4);
  CHECK_EQUAL(k->registers, 168);
  CHECK_EQUAL(k->grid_x, 2147483647);
  CHECK_EQUAL(k->grid_y, 65535);
  CHECK_EQUAL(k->grid_z, 9);
  CHECK_EQUAL(k->block_x, 1024);
  CHECK_EQUAL(k->block_y, 11);
  CHECK_EQUAL(k->block_z, 12);
  CHECK_EQUAL(k->context, 5);
  CHECK_EQUAL(k->shared_static, 13);
  CHECK_EQUAL(k->shared_dynamic, 233472);
  CHECK_EQUAL(r.kernels, 1);
  CHECK_EQUAL(r.copies, 0);
  nothing_lost();
}

static void copies(void) {
  static uint8_t bytes[84 + 84 + 92];
  begin();
  uint8_t *p = lay(bytes, 0, 1); // memcpy
  put(p, 4, 4, 0x04030201);      // copyKind 1, srcKind 2, dstKind 3, flags 4
  put(p, 8, 8, 5000000000);
  put(p, 16, 8, 6);
  put(p, 24, 8, 7);
  put(p, 32, 4, 8);
  put(p, 36, 4, 9);
  put(p, 40, 4, 10);
  put(p, 44, 4, 11);
  put(p, 64, 8, 12);
  p = lay(bytes, 84, 2); // memset
  put(p, 4, 4, 0xffffffff); // the value: not taken
  put(p, 8, 8, 21);
  put(p, 16, 8, 22);
  put(p, 24, 8, 23);
  put(p, 32, 4, 24);
  put(p, 36, 4, 25);
  put(p, 40, 4, 26);
  put(p, 44, 4, 27);
  put(p, 48, 2, 28);
  put(p, 50, 2, 3); // memoryKind
  put(p, 64, 8, 29);
  p = lay(bytes, 168, 22); // peer
  put(p, 4, 4, 0x0f03030a);
  put(p, 8, 8, 31);
  put(p, 16, 8, 32);
  put(p, 24, 8, 33);
  put(p, 32, 4, 34);
  put(p, 36, 4, 35);
  put(p, 40, 4, 36);
  put(p, 44, 4, 37); // srcDeviceId
  put(p, 48, 4, 99);
  put(p, 52, 4, 38); // dstDeviceId
  put(p, 56, 4, 99);
  put(p, 60, 4, 39);
  put(p, 72, 8, 40);
  convert(bytes, sizeof bytes);
  const kw_copy *c = body(KW_COPIES, 3 * sizeof *c);
  CHECK(c->kind == 1 && c->copy_kind == 1 && c->src_kind == 2 && c->dst_kind == 3 && c->flags == 4);
  CHECK(c->bytes == 5000000000 && c->start == 6 && c->end == 7 && c->device == 8 && c->context == 9 && c->stream == 10);
  CHECK(c->correlation == 11 && c->node == 12 && c->src_device == 0 && c->dst_device == 0);
  c++;
  CHECK(c->kind == 2 && c->copy_kind == 0 && c->src_kind == 3 && c->dst_kind == 0 && c->flags == 28);
  CHECK(c->bytes == 21 && c->start == 22 && c->end == 23 && c->device == 24 && c->context == 25 && c->stream == 26);
  CHECK(c->correlation == 27 && c->node == 29 && c->src_device == 0 && c->dst_device == 0);
  c++;
  CHECK(c->kind == 22 && c->copy_kind == 10 && c->src_kind == 3 && c->dst_kind == 3 && c->flags == 15);
  CHECK(c->bytes == 31 && c->start == 32 && c->end == 33 && c->device == 34 && c->context == 35 && c->stream == 36);
  CHECK(c->correlation == 39 && c->node == 40 && c->src_device == 37 && c->dst_device == 38);
  CHECK_EQUAL(r.copies, 3);
  nothing_lost();
}

// A record that is cut short at its buffer's end is lost, and nothing behind that end is read.
static void cut_short(void) {
  static const struct {
    uint32_t kind, whole, what;
  } kinds[] = {{10, 208, KW_OF_KERNELS}, {1, 84, KW_OF_COPIES}, {2, 84, KW_OF_COPIES}, {22, 92, KW_OF_COPIES}};
  static uint8_t bytes[256 + 208];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    for (uint32_t has = 4; has <= kinds[i].whole; has++) {
      memset(bytes, 0, sizeof bytes);
      begin();
      lay(bytes, 0, 2);
      lay(bytes, 88, kinds[i].kind);
      uint64_t seen = r.kernels + r.copies;
      convert(bytes, 88 + has);
      bool whole = has == kinds[i].whole;
      CHECK_EQUAL(r.kernels + r.copies - seen, 1 + whole);
      if (whole) nothing_lost();
      else check_lost(kinds[i].what, 1);
    }
  }
  while (queue_send(&q) != NULL) continue;
}

// What CUPTI says of a buffer is not believed beyond its bounds.
static void beyond(void) {
  static uint8_t bytes[208];
  begin(); // not even a record's kind is there
  lay(bytes, 96, 10);
  convert(bytes, 99);
  check_lost(KW_OF_RECORDS, 1);
  begin();
  laid.at[laid.count++] = 4096;
  convert(bytes, 208);
  check_lost(KW_OF_RECORDS, 1);
  begin();
  laid.after = CUPTI_INVALID_PARAMETER; // it cannot go on
  lay(bytes, 0, 2);
  convert(bytes, 208);
  check_lost(KW_OF_RECORDS, 1);
  begin(); // records that nobody asked for are passed over
  lay(bytes, 0, 77);
  lay(bytes, 40, 2);
  lay(bytes, 124, 77);
  uint64_t seen = r.copies;
  convert(bytes, 128);
  CHECK_EQUAL(r.copies - seen, 1);
  nothing_lost();
  while (queue_send(&q) != NULL) continue;
}

// names_at has two kernels converted whose names lie at an address, and gives the ids of both.
static void names_at(const char *first, const char *second, uint32_t ids[2]) {
  static uint8_t bytes[416];
  begin();
  put(lay(bytes, 0, 10), 104, 8, (uintptr_t)first);
  put(lay(bytes, 208, 10), 104, 8, (uintptr_t)second);
  convert(bytes, sizeof bytes);
  struct frame *f = queue_send(&q);
  while (f->kind != KW_KERNELS) f = queue_send(&q);
  const kw_kernel *k = (const void *)(f->bytes + sizeof(kw_frame));
  ids[0] = k[0].name;
  ids[1] = k[1].name;
}

// An address means a name within one buffer. In the next it may mean another.
static void names(void) {
  static char text[KW_MAX_TEXT + 8];
  uint32_t ids[2], other[2];
  strcpy(text, "first_kernel");
  names_at(text, text, ids);
  CHECK(ids[0] != 0 && ids[0] == ids[1]);
  strcpy(text, "second_kernel");
  names_at(text, NULL, other);
  CHECK(other[0] != ids[0] && other[0] != 0 && other[1] == 0);
  strcpy(text, "first_kernel");
  names_at(text, name, other);
  CHECK_EQUAL(other[0], ids[0]);
  CHECK_EQUAL(other[1], 1);
  memset(text, 'x', KW_MAX_TEXT + 1);
  names_at(text, text, ids);
  CHECK_EQUAL(intern_text(&e.strings, ids[0]).length, KW_MAX_TEXT);
}

// A module that goes takes its names with it, also in the middle of a buffer.
static char reused[32];

static int unload_between(uint8_t *bytes, size_t valid, void **record) {
  if (*record != NULL) {
    callbacks_api(NULL, CUPTI_RESOURCE, CUPTI_MODULE_UNLOAD_STARTING, NULL);
    strcpy(reused, "after_unloading");
  }
  return next_record(bytes, valid, record);
}

static void unloading(void) {
  uint32_t ids[2];
  strcpy(reused, "before_unloading");
  cupti.ActivityGetNextRecord = unload_between;
  names_at(reused, reused, ids);
  cupti.ActivityGetNextRecord = next_record;
  CHECK(ids[0] != ids[1]);
  CHECK(memcmp(intern_text(&e.strings, ids[1]).bytes, "after_unloading", 15) == 0);
}

// The reserve: records are counted with the time that they span.
static void scrapped(void) {
  static uint8_t bytes[SCRAP_BYTES];
  CHECK_EQUAL(records_take_scrapped().count, 0);
  begin();
  uint8_t *p = lay(bytes, 0, 10);
  put(p, 16, 8, 500);
  put(p, 24, 8, 900);
  p = lay(bytes, 208, 2);
  put(p, 16, 8, 300);
  put(p, 24, 8, 400);
  lay(bytes, 292, 77);
  records_scrapped(bytes, 300, true);
  struct loss l = records_take_scrapped();
  CHECK(l.count == 2 && l.from == 300 && l.to == 900);
  CHECK_EQUAL(records_take_scrapped().count, 0);
  laid.count = 0;
  lay(bytes, 0, 10);
  records_scrapped(bytes, 207, true); // cut short: one, of no known time
  l = records_take_scrapped();
  CHECK(l.count == 1 && l.from == 0 && l.to == 0);
  records_scrapped(bytes, 208 * 3 + 1, false); // written over: at most so many kernels fit
  CHECK_EQUAL(records_take_scrapped().count, 4);
  records_scrapped(bytes, 0, false);
  CHECK_EQUAL(records_take_scrapped().count, 0);
  records_scrapped(bytes, UINT64_MAX / 2, false); // what cannot be: no more than the buffer holds
  CHECK_EQUAL(records_take_scrapped().count, (SCRAP_BYTES + 207) / 208);
}

int main(void) {
  cupti.ActivityGetNextRecord = next_record;
  a_kernel();
  copies();
  cut_short();
  beyond();
  names();
  unloading();
  scrapped();
  queue_free(&q);
  encode_free(&e);
  return 0;
}
