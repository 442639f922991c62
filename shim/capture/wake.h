// The two threads of the shim, as the rest of the capture wakes them. Any thread may call what begins with wake_, in a
// launch too: a call makes a system call only where the thread is not woken already.
#ifndef KERNHES_WAKE_H
#define KERNHES_WAKE_H

#include <stdbool.h>

// wake_sender: there is something new to send.
void wake_sender(void);

// wake_flusher: something was asked of the flusher.
void wake_flusher(void);

// wake_hurry asks the flusher for a flush now: CUPTI needs buffers.
void wake_hurry(void);

// wake_hurried tells the flusher whether a flush was asked for since the last call.
bool wake_hurried(void);

// These wait for a wake, at most ms.
void wake_wait_sender(int ms);
void wake_wait_flusher(int ms);

#endif
