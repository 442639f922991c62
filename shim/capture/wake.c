#include "capture/wake.h"

#include "host/threads.h"

static struct wakeup sender, flusher;
static atomic_bool hurried;

void wake_sender(void) { threads_signal(&sender); }
void wake_flusher(void) { threads_signal(&flusher); }

void wake_hurry(void) {
  if (!atomic_exchange(&hurried, true)) wake_flusher();
}

bool wake_hurried(void) { return atomic_exchange(&hurried, false); }

void wake_wait_sender(int ms) { threads_wait(&sender, ms); }
void wake_wait_flusher(int ms) { threads_wait(&flusher, ms); }
