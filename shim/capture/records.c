// Walking activity buffers. CUPTI itself says where a record begins (its size depends on the loaded version);
// of a record only the part is read that all versions from 12.0 on share.
#include "capture/records.h"

#include "capture/cupti.h"
#include "capture/scrap.h"

#include <stdatomic.h>

// Bytes of a record that must be there: the common prefix.
#define KERNEL_PREFIX 208u
#define COPY_PREFIX 84u
#define PEER_PREFIX 92u

#define CACHE 4096u // addresses of names seen in this buffer

static _Atomic uint32_t unloads;

void records_unloading(void) { atomic_fetch_add(&unloads, 1); }

// A cache of names by address holds for one buffer and while no module goes: later an address may mean another name.
struct cache {
  const char *address[CACHE];
  uint32_t id[CACHE];
  uint32_t unloads;
};

static uint32_t u32(const uint8_t *p, size_t at) {
  uint32_t v;
  memcpy(&v, p + at, sizeof v);
  return v;
}

static uint64_t u64(const uint8_t *p, size_t at) {
  uint64_t v;
  memcpy(&v, p + at, sizeof v);
  return v;
}

static uint16_t u16(const uint8_t *p, size_t at) {
  uint16_t v;
  memcpy(&v, p + at, sizeof v);
  return v;
}

static uint32_t name_of(struct records *r, struct cache *c, const char *address) {
  if (address == NULL) return 0;
  uint32_t now = atomic_load(&unloads);
  if (now != c->unloads) {
    memset(c->address, 0, sizeof c->address);
    c->unloads = now;
  }
  size_t slot = hash_mix((uintptr_t)address) % CACHE;
  if (c->address[slot] == address) return c->id[slot];
  uint32_t id = encode_name(r->encoder, address, (uint32_t)strnlen(address, KW_MAX_TEXT));
  c->address[slot] = address;
  c->id[slot] = id;
  return id;
}

// Offsets below: CUpti_ActivityKernel9 and later, whose first 208 bytes are alike.
static void kernel(struct records *r, struct cache *c, const uint8_t *p) {
  const char *name;
  memcpy(&name, p + 104, sizeof name);
  kw_kernel k = {
      .start = u64(p, 16),
      .end = u64(p, 24),
      .node = u64(p, 144),
      .correlation = u32(p, 92),
      .name = name_of(r, c, name),
      .stream = u32(p, 48),
      .device = (uint16_t)u32(p, 40),
      .registers = u16(p, 6),
      .grid_x = u32(p, 52),
      .grid_y = (uint16_t)u32(p, 56), // CUDA's limit for y and z is 65,535
      .grid_z = (uint16_t)u32(p, 60),
      .block_x = (uint16_t)u32(p, 64),
      .block_y = (uint16_t)u32(p, 68),
      .block_z = (uint16_t)u32(p, 72),
      .context = (uint16_t)u32(p, 44),
      .shared_static = u32(p, 76),
      .shared_dynamic = u32(p, 80),
  };
  r->kernels++;
  encode_kernel(r->encoder, &k);
}

// CUpti_ActivityMemcpy5, CUpti_ActivityMemset4, CUpti_ActivityMemcpyPtoP4 and later.
static void copy(struct records *r, const uint8_t *p, uint32_t kind) {
  kw_copy c = {
      .start = u64(p, 16),
      .end = u64(p, 24),
      .bytes = u64(p, 8),
      .kind = (uint8_t)kind,
      .device = (uint16_t)u32(p, 32),
      .context = u32(p, 36),
      .stream = u32(p, 40),
      .node = u64(p, kind == CUPTI_PEER_MEMCPY ? 72 : 64),
      .correlation = u32(p, kind == CUPTI_PEER_MEMCPY ? 60 : 44),
  };
  if (kind == CUPTI_MEMSET) {
    c.flags = u16(p, 48);
    c.src_kind = (uint8_t)u16(p, 50);
  } else {
    c.copy_kind = p[4];
    c.src_kind = p[5];
    c.dst_kind = p[6];
    c.flags = p[7];
  }
  if (kind == CUPTI_PEER_MEMCPY) {
    c.src_device = (uint16_t)u32(p, 44);
    c.dst_device = (uint16_t)u32(p, 52);
  }
  r->copies++;
  encode_copy(r->encoder, &c);
}

// prefix gives how much of a record of that kind is read; 0: of no interest.
static uint32_t prefix(uint32_t kind) {
  switch (kind) {
  case CUPTI_KERNEL:
    return KERNEL_PREFIX;
  case CUPTI_MEMCPY:
  case CUPTI_MEMSET:
    return COPY_PREFIX;
  case CUPTI_PEER_MEMCPY:
    return PEER_PREFIX;
  default:
    return 0;
  }
}

// next gives the next record that is wanted, or NULL at the end. bad: what of the rest cannot be read (KW_OF_...), or -1.
static const uint8_t *next(uint8_t *bytes, uint64_t valid, void **at, int *bad) {
  *bad = -1;
  for (;;) {
    int result = cupti_next_record(bytes, valid, at);
    if (result == CUPTI_END_OF_BUFFER) return NULL;
    const uint8_t *p = *at;
    if (result != CUPTI_OK || p < bytes || p + 4 > bytes + valid) {
      *bad = KW_OF_RECORDS;
      return NULL;
    }
    uint32_t kind = u32(p, 0), want = prefix(kind);
    if (want == 0) continue;
    if (p + want <= bytes + valid) return p;
    *bad = kind == CUPTI_KERNEL ? KW_OF_KERNELS : KW_OF_COPIES;
    return NULL;
  }
}

void records_convert(struct records *r, const struct buffer *b) {
  if (b->valid == 0) return;
  if (atomic_load(&cupti.gone)) { // it came after the last flush, and CUPTI may not be asked where a record begins
    uint64_t count = (b->valid + KERNEL_PREFIX - 1) / KERNEL_PREFIX;
    losses_add(r->losses, KW_LOST_SHIM_MALFORMED, KW_OF_RECORDS, (struct loss){.count = count});
    return;
  }
  static struct cache cache; // 48 KiB; the sender's alone
  memset(cache.address, 0, sizeof cache.address);
  void *at = NULL;
  int bad = -1;
  for (const uint8_t *p; (p = next(b->bytes, b->valid, &at, &bad)) != NULL;) {
    uint32_t kind = u32(p, 0);
    if (kind == CUPTI_KERNEL) kernel(r, &cache, p);
    else copy(r, p, kind);
  }
  // How many more there would have been nobody knows: at least this one.
  if (bad >= 0) losses_add(r->losses, KW_LOST_SHIM_MALFORMED, (uint32_t)bad, (struct loss){.count = 1});
}

static _Atomic uint64_t scrapped, scrapped_from, scrapped_to;

static void scrap_one(uint64_t start, uint64_t end) {
  uint64_t was = atomic_load(&scrapped_from);
  while (start != 0 && (was == 0 || start < was) && !atomic_compare_exchange_weak(&scrapped_from, &was, start)) continue;
  was = atomic_load(&scrapped_to);
  while (end > was && !atomic_compare_exchange_weak(&scrapped_to, &was, end)) continue;
  atomic_fetch_add(&scrapped, 1); // last: whoever takes the count finds its times
}

void records_scrapped(uint8_t *bytes, uint64_t valid, bool alone) {
  if (valid > SCRAP_BYTES) valid = SCRAP_BYTES;
  if (!alone) { // several borrowers wrote over each other: nothing there may be believed, but kernels are the most of it
    atomic_fetch_add(&scrapped, (valid + KERNEL_PREFIX - 1) / KERNEL_PREFIX);
    return;
  }
  void *at = NULL;
  int bad;
  for (const uint8_t *p; (p = next(bytes, valid, &at, &bad)) != NULL;) scrap_one(u64(p, 16), u64(p, 24));
  if (bad >= 0) scrap_one(0, 0);
}

struct loss records_take_scrapped(void) {
  struct loss l = {.count = atomic_exchange(&scrapped, 0)};
  if (l.count == 0) return l;
  l.from = atomic_exchange(&scrapped_from, 0);
  l.to = atomic_exchange(&scrapped_to, 0);
  return l;
}
