// The pool: lent, completed and returned by several threads at once; empty; before it is open. And the reserve.
#include "capture/pool.h"
#include "capture/scrap.h"
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define BUFFERS 8u
#define BYTES 4096u
#define LENDERS 4
#define EACH 5000

static _Atomic int completed;

static void *lend(void *mark) {
  for (int i = 0; i < EACH;) {
    uint64_t size;
    uint8_t *b = pool_lend(&size);
    if (b == NULL) continue;
    CHECK_EQUAL(size, BYTES);
    memset(b, (int)(uintptr_t)mark, BYTES); // two owners of one buffer would be seen here, and by TSan
    for (uint32_t k = 0; k < BYTES; k += 63) CHECK_EQUAL(b[k], (uintptr_t)mark); // 63 divides 4095: the last byte too
    pool_complete(b, (uint64_t)i % BYTES);
    i++;
    atomic_fetch_add(&completed, 1);
  }
  return NULL;
}

static void *lend_scraps(void *mark) {
  for (int i = 0; i < EACH; i++) {
    uint64_t size;
    uint8_t *b = scrap_lend(&size);
    CHECK_EQUAL(size, SCRAP_BYTES);
    memset(b, (int)(uintptr_t)mark, 64);
    for (int k = 0; k < 64; k++) CHECK_EQUAL(b[k], (uintptr_t)mark);
    scrap_return(b);
  }
  return NULL;
}

static void scraps(const uint8_t *other) {
  static uint8_t *lent[SCRAPS];
  uint64_t size;
  bool alone;
  CHECK(!scrap_owns(other, &alone)); // there are none yet
  CHECK(scrap_open() && scrap_open());
  for (uint32_t i = 0; i < SCRAPS; i++) {
    lent[i] = scrap_lend(&size);
    CHECK(scrap_owns(lent[i], &alone) && alone);
    CHECK(i == 0 || lent[i] == lent[i - 1] + SCRAP_BYTES); // each another one, those that are memory first
  }
  uint8_t *last = scrap_lend(&size);
  CHECK(last != NULL && size == SCRAP_BYTES && last != lent[0] && scrap_lend(&size) == last);
  CHECK(scrap_owns(last, &alone) && !alone);
  memset(last, 1, SCRAP_BYTES);
  scrap_return(last);
  scrap_return(last); // no harm: it was never one of those that come and go
  for (uint32_t i = SCRAPS; i-- > 0;) scrap_return(lent[i]);
  CHECK(scrap_lend(&size) == lent[0]);
  scrap_return(lent[0]);
  CHECK(!scrap_owns(other, &alone) && !scrap_owns((uint8_t *)&size, &alone) && !scrap_owns(lent[0] - 1, &alone));
  CHECK(!scrap_owns(last + SCRAP_BYTES, &alone));

  pthread_t threads[LENDERS];
  for (uintptr_t i = 0; i < LENDERS; i++) CHECK(pthread_create(&threads[i], NULL, lend_scraps, (void *)(i + 1)) == 0);
  for (int i = 0; i < LENDERS; i++) pthread_join(threads[i], NULL);
  for (uint32_t i = 0; i < SCRAPS; i++) CHECK(scrap_owns(scrap_lend(&size), &alone) && alone);
  CHECK(scrap_lend(&size) == last);
}

// sizes: CUPTI is not believed that a buffer holds more than it can.
static void sizes(void) {
  static const uint64_t said[] = {BYTES, BYTES + 1, UINT64_MAX, 0}, valid[] = {BYTES, BYTES, BYTES, 0};
  for (int i = 0; i < 4; i++) {
    uint64_t size;
    uint8_t *bytes = pool_lend(&size);
    CHECK(bytes != NULL && pool_completed() == NULL);
    pool_complete(bytes, said[i]);
    CHECK_EQUAL(pool_waiting(), valid[i]);
    struct buffer *b = pool_completed();
    CHECK(b != NULL && b->next == NULL && b->bytes == bytes);
    CHECK_EQUAL(b->valid, valid[i]);
    pool_return(b);
    CHECK_EQUAL(pool_waiting(), 0);
  }
}

// low: fewer than a quarter of 8 are free once 7 are out.
static void low(void) {
  uint8_t *lent[BUFFERS];
  uint64_t size, requests = pool_requests();
  for (uint32_t i = 0; i < 7; i++) {
    CHECK(!pool_low());
    lent[i] = pool_lend(&size);
    CHECK_EQUAL(pool_out(), i + 1);
  }
  CHECK(pool_low());
  CHECK_EQUAL(pool_requests() - requests, 7);
  for (uint32_t i = 0; i < 7; i++) pool_complete(lent[i], 0);
  for (struct buffer *next, *at = pool_completed(); at != NULL; at = next) {
    next = at->next;
    pool_return(at);
  }
  CHECK(!pool_low() && pool_out() == 0);
}

int main(void) {
  uint64_t size;
  CHECK(!pool_low());
  uint8_t *early = pool_lend(&size);
  CHECK(early != NULL && size == POOL_EARLY_BYTES);
  CHECK(pool_lend(&size) == NULL);
  pool_complete(early, 100);

  CHECK(pool_open(BUFFERS, BYTES));
  struct buffer *b = pool_completed();
  CHECK(b != NULL && b->next == NULL && b->bytes == early && b->valid == 100);
  pool_return(b);
  CHECK_EQUAL(pool_out(), 0);

  uint8_t *lent[BUFFERS];
  for (uint32_t i = 0; i < BUFFERS; i++) CHECK((lent[i] = pool_lend(&size)) != NULL && lent[i] != early);
  CHECK(pool_lend(&size) == NULL);
  CHECK_EQUAL(pool_out(), BUFFERS);
  CHECK(pool_low());
  uint8_t *first = lent[0];
  for (uint32_t i = 0; i < BUFFERS; i++) first = lent[i] < first ? lent[i] : first;
  for (uint32_t i = 0; i < BUFFERS; i++) pool_complete(lent[i], i);
  pool_complete((uint8_t *)&size, 1);      // not of the pool
  pool_complete(lent[0] + 8, 1);           // not where one begins
  pool_complete(first + BUFFERS * BYTES, 1); // where one more would begin
  pool_complete(first - BYTES, 1);
  pool_complete(early + BYTES, 1); // in the early one, but not where it begins
  pool_complete(NULL, 1);
  uint32_t order = 0;
  for (struct buffer *next, *at = pool_completed(); at != NULL; at = next) {
    next = at->next;
    CHECK(at->bytes == lent[order] && at->valid == order);
    order++;
    pool_return(at);
  }
  CHECK_EQUAL(order, BUFFERS);
  CHECK_EQUAL(pool_waiting(), 0);
  CHECK(!pool_low());
  sizes();
  low();

  pthread_t threads[LENDERS];
  for (uintptr_t i = 0; i < LENDERS; i++) CHECK(pthread_create(&threads[i], NULL, lend, (void *)(i + 1)) == 0);
  for (int taken = 0; taken < LENDERS * EACH;) {
    for (struct buffer *next, *at = pool_completed(); at != NULL; at = next) {
      next = at->next;
      taken++;
      pool_return(at);
    }
  }
  for (int i = 0; i < LENDERS; i++) pthread_join(threads[i], NULL);
  CHECK_EQUAL(pool_out(), 0);
  CHECK_EQUAL(pool_out_most(), BUFFERS);
  scraps(early);
  return 0;
}
