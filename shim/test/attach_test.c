// Attaching where CUPTI refuses something, or comes too late for HES: the shim is then no subscriber, nothing is left
// enabled, and the mode says so.
#include "capture/attach.h"
#include "capture/cupti.h"
#include "capture/mode.h"
#include "check.h"
#include "host/env.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int subscribing, enabling_callback, enabling_kind, fails_at = -1; // results; which kind is refused
static int subscribed, kinds[32], enabled;

static int subscribe(void **subscriber, cupti_callback callback, void *user) {
  CHECK(callback != NULL && user != NULL);
  if (subscribing != CUPTI_OK) return subscribing;
  *subscriber = &subscribed;
  subscribed++;
  return CUPTI_OK;
}

static int unsubscribe(void *subscriber) {
  CHECK(subscriber == &subscribed);
  subscribed--;
  return CUPTI_OK;
}

static int enable_callback(uint32_t on, void *s, int domain, uint32_t id) {
  (void)domain, (void)id;
  CHECK(on == 1 && s == &subscribed);
  return enabling_callback;
}

static int register_callbacks(cupti_request request, cupti_complete complete) {
  CHECK(request != NULL && complete != NULL);
  return CUPTI_OK;
}

static int enable(int kind) {
  if (enabled++ == fails_at) return enabling_kind;
  kinds[kind] = 1;
  return CUPTI_OK;
}

static int disable(int kind) { return kinds[kind] = 0, CUPTI_OK; }

static int on(void) { return kinds[CUPTI_KERNEL] + kinds[CUPTI_MEMCPY] + kinds[CUPTI_MEMSET]; }

static void load(const char *hes, const char *software) {
  setenv("KERNHES_HES", hes, 1);
  setenv("KERNHES_SOFTWARE", software, 1);
  env_load();
  cupti.version = CUPTI_13_0;
  cupti.Subscribe = subscribe;
  cupti.Unsubscribe = unsubscribe;
  cupti.EnableCallback = enable_callback;
  cupti.ActivityRegisterCallbacks = register_callbacks;
  cupti.ActivityEnable = enable;
  cupti.ActivityDisable = disable;
}

static void mode(enum mode want, bool is_subscribed, const char *reason) {
  struct mode_state m = mode_get();
  CHECK(m.mode == want && m.subscribed == is_subscribed);
  CHECK(strcmp(m.reason, reason) == 0);
  CHECK((atomic_load(&cupti.subscriber) != NULL) == is_subscribed && subscribed == is_subscribed);
}

static void works(void) {
  load("off", "on");
  CHECK_EQUAL(attach(false), ATTACHED);
  mode(MODE_SOFTWARE, true, "");
  CHECK_EQUAL(on(), 3);
}

static void off(void) {
  load("off", "off");
  CHECK_EQUAL(attach(false), ATTACHED_NOT);
  mode(MODE_OFF, false, "KERNHES_SOFTWARE is off");
  CHECK_EQUAL(enabled, 0);
}

static void busy(void) {
  load("off", "on");
  subscribing = CUPTI_MULTIPLE_SUBSCRIBERS;
  CHECK_EQUAL(attach(false), ATTACHED_BUSY);
  mode(MODE_OFF, false, "subscribing: 39, no word for it");
  subscribing = 8;
  CHECK_EQUAL(attach(true), ATTACHED_NOT);
  mode(MODE_OFF, false, "subscribing: 8, no word for it");
}

static void no_callbacks(void) {
  load("off", "on");
  enabling_callback = 7;
  CHECK_EQUAL(attach(false), ATTACHED_NOT);
  mode(MODE_OFF, false, "enabling callbacks: 7, no word for it");
  CHECK_EQUAL(on(), 0);
}

// Of the kinds that were enabled before one is refused none stays.
static void no_kinds(void) {
  load("off", "on");
  fails_at = 2;
  enabling_kind = 9;
  CHECK_EQUAL(attach(false), ATTACHED_NOT);
  mode(MODE_OFF, false, "enabling activity records: 9, no word for it");
  CHECK_EQUAL(on(), 0);
}

// HES cannot be had after the first context: software tracing instead, or nothing.
static void late_for_hes(void) {
  load("on", "on");
  CHECK_EQUAL(attach(true), ATTACHED);
  mode(MODE_SOFTWARE, true, "HES cannot be turned on after the first context");
}

static void late_for_all(void) {
  load("on", "off");
  CHECK_EQUAL(attach(true), ATTACHED_NOT);
  mode(MODE_OFF, false, "HES cannot be turned on after the first context; KERNHES_SOFTWARE is off");
  CHECK_EQUAL(on(), 0);
}

static void in_child(void (*run)(void)) { // settings are read once
  int status;
  pid_t child = fork();
  if (child == 0) {
    run();
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQUAL(status, 0);
}

int main(void) {
  void (*const all[])(void) = {works, off, busy, no_callbacks, no_kinds, late_for_hes, late_for_all};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) in_child(all[i]);
  return 0;
}
