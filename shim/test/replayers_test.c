// Who may launch a graph at any moment: the list of threads that ever did, without those that have ended, are held, or are
// outside the wrapper; and how many captures are open.
#include "capture/events.h"
#include "capture/replayers.h"
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static pthread_barrier_t both;

static void *note(void *unused) {
  replayers_note();
  replayers_note(); // again
  return unused;
}

// stay is on the list, and alive, between the barriers; then it parks, and calls.
static void *stay(void *unused) {
  replayers_park(true), replayers_call(true); // before it is on the list: nothing
  replayers_note();
  for (int i = 0; i < 2; i++) pthread_barrier_wait(&both);
  replayers_park(true);
  for (int i = 0; i < 2; i++) pthread_barrier_wait(&both);
  replayers_park(false), replayers_call(true);
  for (int i = 0; i < 2; i++) pthread_barrier_wait(&both);
  return unused;
}

static uint32_t running(bool wrapped) {
  uint32_t one = 0, count = replayers_free(wrapped, &one);
  CHECK((count == 0) == (one == 0));
  return count;
}

static void in_thread(void *(*run)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

// settles: that a thread has ended the kernel says slightly later.
static uint32_t settles(uint32_t want) {
  for (int i = 0; i < 20000 && running(false) != want; i++) usleep(100);
  return running(false);
}

static void threads(void) {
  pthread_t thread;
  CHECK(running(false) == 0 && running(true) == 0);
  in_thread(note);
  CHECK_EQUAL(settles(0), 0);
  CHECK(pthread_barrier_init(&both, NULL, 2) == 0 && pthread_create(&thread, NULL, stay, NULL) == 0);
  pthread_barrier_wait(&both);
  CHECK_EQUAL(running(false), 1);
  CHECK_EQUAL(running(true), 0); // it calls nothing
  pthread_barrier_wait(&both), pthread_barrier_wait(&both);
  CHECK_EQUAL(running(false), 0); // it is parked
  pthread_barrier_wait(&both), pthread_barrier_wait(&both);
  CHECK(running(false) == 1 && running(true) == 1);
  pthread_barrier_wait(&both);
  pthread_join(thread, NULL);
  CHECK_EQUAL(settles(0), 0);
  CHECK_EQUAL(running(true), 0);
}

// Places of threads that have ended are used again; more than there are places for are said to be too many.
static pthread_barrier_t all;

static void *wait_all(void *unused) {
  replayers_note();
  pthread_barrier_wait(&all), pthread_barrier_wait(&all);
  return unused;
}

static void many(uint32_t count, bool too_many) {
  pthread_t thread[REPLAYERS_MAX + 1];
  CHECK(pthread_barrier_init(&all, NULL, count + 1) == 0);
  for (uint32_t i = 0; i < count; i++) CHECK(pthread_create(&thread[i], NULL, wait_all, NULL) == 0);
  pthread_barrier_wait(&all);
  CHECK_EQUAL(running(false), count < REPLAYERS_MAX ? count : REPLAYERS_MAX);
  CHECK_EQUAL(replayers_overflowed(), too_many);
  pthread_barrier_wait(&all);
  for (uint32_t i = 0; i < count; i++) pthread_join(thread[i], NULL);
}

static void captures(void) {
  CHECK_EQUAL(replayers_capturing(), 0);
  replayers_capture(false); // whose beginning nobody heard
  CHECK_EQUAL(replayers_capturing(), 0);
  replayers_capture(true);
  replayers_capture(true);
  replayers_captured(); // it is known that one is open
  CHECK_EQUAL(replayers_capturing(), 2);
  replayers_capture(false), replayers_capture(false);
  replayers_captured();
  CHECK_EQUAL(replayers_capturing(), 1);
  replayers_capture(false);
  CHECK_EQUAL(replayers_capturing(), 0);
}

// Steps since a graph was made, and since a thread came.
static void since(void) {
  replayers_made();
  in_thread(note);
  CHECK(replayers_since() == 0 && replayers_known() == 0);
  uint64_t before = replayers_steps();
  replayers_step(), replayers_step(), replayers_step();
  CHECK(replayers_steps() == before + 3 && replayers_since() == 3 && replayers_known() == 3);
  replayers_capture(true);
  CHECK(replayers_since() == 0 && replayers_known() == 3);
  replayers_step();
  replayers_capture(false); // its end makes none
  CHECK_EQUAL(replayers_since(), 1);
  replayers_captured();
  CHECK_EQUAL(replayers_since(), 0);
  replayers_step();
  replayers_captured(); // the same
  CHECK_EQUAL(replayers_since(), 1);
  in_thread(note);
  CHECK_EQUAL(replayers_known(), 0);
}

int main(void) {
  threads();
  captures();
  since();
  many(REPLAYERS_MAX - 1, false);
  many(REPLAYERS_MAX, false); // in the places of those
  many(REPLAYERS_MAX + 1, true);
  replayers_note();
  CHECK_EQUAL(replayers_capturing(), 1);
  replayers_forked();
  CHECK(running(false) == 0 && replayers_capturing() == 0 && !replayers_overflowed() && self.replayer == 0);
  replayers_note();
  uint32_t one;
  CHECK(replayers_free(false, &one) == 1 && one == events_thread());
  return 0;
}
