// Wakeups: one signal ends one wait, whenever it comes, and no descriptor is behind it.
#include "check.h"
#include "host/env.h"
#include "host/threads.h"

#include <unistd.h>

#define ROUNDS 20000
#define FOREVER 60000 // ms; no wait here lasts that long

static struct wakeup there, back;

static void *answer(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(threads_wait(&there, FOREVER));
    threads_signal(&back);
  }
  return NULL;
}

static void *signal_once(void *to) {
  usleep(20000); // so that the other mostly sleeps by then
  threads_signal(to);
  return NULL;
}

int main(void) {
  env_load();
  int next = dup(0);
  close(next);
  struct wakeup w = {0};
  CHECK(!threads_wait(&w, 0));
  CHECK(!threads_wait(&w, 1));
  threads_signal(&w);
  threads_signal(&w); // the two are one
  CHECK(threads_wait(&w, 0));
  CHECK(!threads_wait(&w, 1));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, signal_once, &w) == 0);
  CHECK(threads_wait(&w, FOREVER));
  pthread_join(thread, NULL);
  CHECK(threads_start(&thread, "kernhes-test", answer));
  for (int i = 0; i < ROUNDS; i++) { // a lost wakeup would hang here until a wait fails
    threads_signal(&there);
    CHECK(threads_wait(&back, FOREVER));
  }
  pthread_join(thread, NULL);
  CHECK_EQUAL(dup(0), next);
  return 0;
}
