#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "baton.h"

typedef struct { pthread_t thread; pthread_cond_t turn; bool started; } runner;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static runner *runners;
static int64_t holder;
static int64_t (*run_leg)(uint32_t);

static void *run(void *number);

static void pass_to(int64_t next) {
  holder = next;
  if (next < 0) {
    pthread_cond_signal(&runners[0].turn); // the first waits for the end
    return;
  }
  runner *r = &runners[next];
  if (next && !r->started) {
    r->started = true;
    if (pthread_create(&r->thread, NULL, run, (void *)(uintptr_t)next)) abort();
  }
  pthread_cond_signal(&r->turn);
}

static void *run(void *number) {
  uint32_t self = (uint32_t)(uintptr_t)number;
  pthread_mutex_lock(&lock);
  while (holder >= 0) {
    if (holder != self) {
      pthread_cond_wait(&runners[self].turn, &lock);
      continue;
    }
    pthread_mutex_unlock(&lock);
    int64_t next = run_leg(self);
    pthread_mutex_lock(&lock);
    if (next != self) pass_to(next);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

void run_threads(uint32_t n, int64_t (*leg)(uint32_t)) {
  if (!(runners = calloc(n, sizeof *runners))) abort();
  for (uint32_t i = 0; i < n; i++) pthread_cond_init(&runners[i].turn, NULL);
  run_leg = leg;
  holder = 0;
  run((void *)(uintptr_t)0);
  pthread_mutex_lock(&lock);
  for (uint32_t i = 1; i < n; i++) pthread_cond_signal(&runners[i].turn);
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 1; i < n; i++)
    if (runners[i].started) pthread_join(runners[i].thread, NULL);
  free(runners);
}
