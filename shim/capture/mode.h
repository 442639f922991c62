// The tracing mode as it really is, and why.
#ifndef KERNHES_MODE_H
#define KERNHES_MODE_H

#include <stdbool.h>
#include <stdint.h>

enum mode { MODE_OFF, MODE_SOFTWARE, MODE_HES, MODE_WINDOWS };

#define MODE_REASON 256 // bytes of a reason with its zero

struct mode_state {
  enum mode mode;
  char reason[MODE_REASON]; // one line; "" if all is as it was asked for
  bool subscribed;          // the shim is a subscriber of CUPTI
  const char *windows;      // in the mode windows: where that stands; else ""
  uint32_t version;         // counts the changes
};

// mode_set says what is on from now on, and notes whether the shim is subscribed; any thread.
void mode_set(enum mode mode, const char *format, ...) __attribute__((format(printf, 2, 3)));

// mode_windows says where the mode windows stands, a text that lasts, and sets the mode to that.
void mode_windows(const char *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct mode_state mode_get(void);
bool mode_is_off(void); // lock-free
const char *mode_name(enum mode mode);

#endif
