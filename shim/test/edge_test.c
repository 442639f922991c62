// Edges: a thread that comes to the place of steps is held when an edge is wanted, others before they launch; all go on at
// the release, at the deadline, or at exit, and while a capture is open nobody is held.
#include "capture/asked.h"
#include "capture/edge.h"
#include "capture/events.h"
#include "capture/replayers.h"
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND (1000 * MS)

// Linked with --wrap: time stands still but when the test moves it.
static _Atomic uint64_t now = SECOND;
uint64_t __wrap_clock_tick(void);
uint64_t __wrap_clock_tick(void) { return atomic_load(&now); }

static void pass(uint64_t ns) { atomic_fetch_add(&now, ns); }

// A walker is a thread of the engine that comes to the place, or launches a graph, once.
struct walker {
  pthread_t thread;
  _Atomic uint32_t id;
  atomic_bool launches, done;
};

static void *walk(void *of) {
  struct walker *w = of;
  atomic_store(&w->id, events_thread());
  if (atomic_load(&w->launches)) {
    edge_enter();
    edge_leave();
  } else {
    edge_push(3, 2);
  }
  atomic_store(&w->done, true);
  return NULL;
}

static void start(struct walker *w, bool launches) {
  *w = (struct walker){.launches = launches};
  CHECK(pthread_create(&w->thread, NULL, walk, w) == 0);
}

static void end(struct walker *w) {
  pthread_join(w->thread, NULL);
  CHECK(atomic_load(&w->done));
}

// is_held waits until a thread sleeps in the kernel: its edge goes on.
static void is_held(struct walker *w) {
  for (int i = 0; i < 20; i++) {
    usleep(500);
    CHECK(!atomic_load(&w->done));
  }
}

static void catches(struct walker *w) {
  start(w, false);
  while (edge_caught() == 0) usleep(200);
  CHECK_EQUAL(edge_caught(), atomic_load(&w->id));
}

static void steps(int count, uint64_t apart) {
  for (int i = 0; i < count; i++) {
    pass(apart);
    edge_push(3, 2);
  }
}

// The limit is three median steps, between 50 ms and a second. The first step has no interval.
static void limits(void) {
  CHECK_EQUAL(edge_limit(), 50 * MS);
  edge_push(3, 2);
  CHECK_EQUAL(edge_limit(), 50 * MS);
  CHECK_EQUAL(replayers_steps(), 1);
  steps(1, 40 * MS);
  CHECK_EQUAL(edge_limit(), 120 * MS);
  steps(2, 30 * MS); // 30, 30, 40
  CHECK_EQUAL(edge_limit(), 90 * MS);
  steps(1, 0); // two in a microsecond are none
  CHECK_EQUAL(edge_limit(), 90 * MS);
  steps(40, 5 * MS); // the last 32 count
  CHECK_EQUAL(edge_limit(), 50 * MS);
  steps(40, 400 * MS);
  CHECK_EQUAL(edge_limit(), SECOND);
  steps(40, 100 * MS);
  CHECK_EQUAL(edge_limit(), 300 * MS);
  steps(40, 200 * MS);
  for (uint64_t n = 1; n <= 32; n++) { // each of the last 32 counts once
    steps(1, 100 * MS);
    CHECK_EQUAL(edge_limit(), n <= 16 ? 600 * MS : 300 * MS);
  }
  uint64_t before = replayers_steps();
  edge_push(3, 3), edge_push(2, 2), edge_push(0, 2), edge_push(3, 1); // not the place
  CHECK_EQUAL(replayers_steps(), before);
}

static void places(void) {
  edge_push(3, 2);
  CHECK(!edge_placed() && replayers_steps() == 0);
  asked_place(3, 0, 2);
  edge_look();
  CHECK(edge_placed());
  edge_push(3, 2);
  CHECK_EQUAL(replayers_steps(), 0); // the mode windows is not on
  edge_enable();
  asked_nothing();
  edge_look();
  CHECK(edge_placed()); // the last ones stay
  // One thread's alone.
  asked_place(3, events_thread() + 1, 2);
  edge_look();
  edge_push(3, 2);
  CHECK_EQUAL(replayers_steps(), 0);
  asked_nothing();
  asked_place(7, 0, 1);
  asked_place(3, 0, 2);
  edge_look();
}

// An edge: it begins at a step, holds who launches, and ends with the release.
static void release(void) {
  struct walker step, launch, more;
  CHECK(edge_caught() == 0 && edge_left() == 0 && !edge_commit() && !edge_expired());
  edge_push(3, 2); // nobody wants one
  edge_enter(), edge_leave();
  edge_want(100 * MS);
  edge_unwant();
  edge_push(3, 2);
  edge_want(100 * MS);
  catches(&step);
  CHECK_EQUAL(edge_left(), 100 * MS);
  start(&launch, true);
  start(&more, false); // another thread's step
  is_held(&launch), is_held(&more), is_held(&step);
  pass(60 * MS);
  CHECK_EQUAL(edge_left(), 40 * MS);
  uint32_t one;
  CHECK_EQUAL(replayers_free(true, &one), 0); // it waits where it can launch nothing
  edge_release();
  end(&step), end(&launch), end(&more);
  CHECK(edge_caught() == 0 && edge_left() == 0 && !edge_expired() && edge_holds() == 1);
  CHECK_EQUAL(edge_held_ns(), 60 * MS);
  edge_push(3, 2); // none is wanted any more
}

// Committed, it outlasts its deadline.
static void commit(void) {
  struct walker step, launch;
  edge_want(100 * MS);
  catches(&step);
  CHECK(edge_commit());
  CHECK(!edge_commit() && edge_left() == 100 * MS && edge_caught() == 0);
  pass(200 * MS);
  start(&launch, true);
  is_held(&step), is_held(&launch);
  CHECK(!edge_expired());
  edge_release();
  end(&step), end(&launch);
  CHECK_EQUAL(edge_holds(), 2);
}

// Not committed, it ends by itself; another begins only after the release.
static void deadline(void) {
  struct walker step;
  edge_want(30 * MS); // of real time, too: the futex waits for so long
  catches(&step);
  is_held(&step);
  pass(30 * MS);
  CHECK_EQUAL(edge_left(), 0);
  end(&step);
  CHECK(edge_expired() && edge_caught() == 0 && !edge_commit());
  edge_push(3, 2);
  edge_enter(), edge_leave(); // nobody is held
  CHECK_EQUAL(edge_holds(), 3);
  edge_release();
  CHECK(!edge_expired());
  edge_want(100 * MS);
  catches(&step); // the next
  edge_release();
  end(&step);
}

// A thread that was held would keep a capture open.
static void captures(void) {
  struct walker step, other;
  replayers_capture(true);
  edge_want(100 * MS);
  edge_push(3, 2);
  CHECK_EQUAL(edge_caught(), 0);
  replayers_capture(false);
  catches(&step);
  replayers_capture(true);
  start(&other, false); // whose capture it may be
  end(&other);
  replayers_capture(false);
  edge_release();
  end(&step);
}

static void wrapper(void) {
  self.wrapped = false;
  edge_launched();
  CHECK(!edge_wrapped() && !edge_bypassed()); // there is no wrapper to be bypassed
  edge_wrap();
  CHECK(edge_wrapped());
  edge_enter();
  edge_launched();
  edge_leave();
  CHECK(edge_wrapped() && !edge_bypassed());
  edge_launched();
  CHECK(!edge_wrapped() && edge_bypassed());
}

// A child of fork is held by nothing; at exit everybody goes on, but for who is committed.
static void ends(void) {
  struct walker step;
  edge_want(100 * MS);
  catches(&step);
  pid_t child = fork();
  if (child == 0) {
    edge_forked();
    edge_push(3, 2);
    _exit(edge_caught() == 0 && edge_left() == 0 && !edge_on ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  is_held(&step);
  CHECK(!edge_ending());
  edge_exiting();
  end(&step);
  CHECK(edge_ending() && edge_expired() && edge_left() == 0 && !edge_commit());
  edge_release();
  edge_want(100 * MS);
  edge_push(3, 2); // not any more
  CHECK_EQUAL(edge_caught(), 0);
}

int main(void) {
  places();
  limits();
  release();
  commit();
  deadline();
  captures();
  wrapper();
  ends();
  return 0;
}
