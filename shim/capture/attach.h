// Subscribing to CUPTI, and HES: what to call in which order, by version.
#ifndef KERNHES_ATTACH_H
#define KERNHES_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum attached {
  ATTACHED,       // tracing, or it will be clear once cuInit is done
  ATTACHED_BUSY,  // another subscriber is there: try again later
  ATTACHED_NOT,   // nothing is to be traced in this process, and CUPTI is left alone
  ATTACHED_LATER, // windows: CUPTI is left alone until the first range of a thread that has a context
};

// attach_on_context has a function called in each callback that says that a context was made. Before attach.
void attach_on_context(void (*context)(void));

// attach is called inside cuInit (late false) or after contexts exist (late true). It sets the mode.
enum attached attach(bool late);

// attach_initialised settles HES: to be called when cuInit has finished.
void attach_initialised(void);

// attach_refused: CUPTI reported this error some time later.
void attach_refused(bool fatal, uint32_t result, const char *message);

// attach_ended is true once tracing must be given up: to be followed by both of these, outside any callback.
bool attach_ended(void);

// attach_quiesce says off, and why, unless reason is NULL; then it stops recording and has CUPTI give all back. To be
// followed by detach; not from a callback.
void attach_quiesce(const char *reason);

// attach_exiting: the process ends, so attach_quiesce waits for nothing that runs, also if it has begun to.
void attach_exiting(void);

// detach unsubscribes: another client may then subscribe. Not from a callback. whole: no kernel was ever traced here, and
// CUPTI is finalized too.
void detach(bool whole);

// In the mode windows, instead of attach: attach_listen subscribes and has launches, graphs and captures told; nothing is
// recorded. attach_record begins to record, and gives CUPTI's result; attach_stop ends it. attach_unsubscribe has nothing more
// told. attach_finalize leaves CUPTI: no call may follow but attach_listen; false if another client is there.
// None from a callback.
enum attached attach_listen(void);
int attach_record(void);
void attach_stop(void);
void attach_unsubscribe(void);
bool attach_finalize(void);

// attach_wants_hes decides by setting and version; why not goes to why (one line).
bool attach_wants_hes(const char *setting, uint32_t version, char *why, size_t room);

#endif
