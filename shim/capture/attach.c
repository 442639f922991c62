// Attaching. With CUPTI 13.3 or later by the V2 calls, where HES is an attribute that is set before subscribing and
// read back after cuInit; before that by the V1 calls, where it is a call to be made right after cuInit.
#include "capture/attach.h"

#include "capture/callbacks.h"
#include "capture/cupti.h"
#include "capture/gpus.h"
#include "capture/inside.h"
#include "capture/mode.h"
#include "capture/pool.h"
#include "capture/scrap.h"
#include "capture/wake.h"
#include "host/env.h"
#include "host/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int kinds[] = {CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_MEMSET};
#define KINDS (sizeof kinds / sizeof *kinds)

static atomic_bool pending; // HES was asked for, and cuInit has not finished
static atomic_bool ended;   // to be detached
static atomic_bool tracing; // kinds are enabled
static atomic_bool exiting; // what runs is not waited for any more
static atomic_bool hes_on;  // for the rest of the process, whoever is subscribed
static char why[MODE_REASON]; // HES is not on; written before cuInit finishes

bool attach_wants_hes(const char *setting, uint32_t version, char *reason, size_t room) {
  *reason = 0;
  if (strcmp(setting, "off") == 0) return false;
  if (version < CUPTI_HWTRACE) {
    snprintf(reason, room, "HES needs CUPTI 12.8 or later (this is version %u)", version);
    return false;
  }
  if (strcmp(setting, "on") == 0) return true;
  snprintf(reason, room, "HES is on only with KERNHES_HES=on, since it has not been seen on hardware");
  return false;
}

static bool software(void) { return strcmp(env_text(ENV_SOFTWARE), "on") == 0; }
static bool windows(void) { return strcmp(env_text(ENV_SOFTWARE), "windows") == 0; }

static void say_off(void) {
  mode_set(MODE_OFF, "%s%s%s", why, *why != 0 ? "; " : "",
           windows() ? "no windows, since CUPTI was subscribed for HES" : "KERNHES_SOFTWARE is off");
}

// later leaves CUPTI alone until there is something to hear, in the mode windows.
static enum attached later(void) {
  // Only a version with which leaving under load was tried: with another it may end the engine.
  if (cupti.version / 100 != CUPTI_13_0 / 100 && strcmp(env_text(ENV_WINDOWS_CUPTI), "any") != 0) {
    mode_set(MODE_OFF, "windows were not tried with this CUPTI (version %u); KERNHES_WINDOWS_CUPTI=any allows them", cupti.version);
    return ATTACHED_NOT;
  }
  if (cupti.Finalize == NULL) {
    mode_set(MODE_OFF, "windows need cuptiFinalize, which this CUPTI lacks");
    return ATTACHED_NOT;
  }
  mode_windows("detached", "%s", why);
  return ATTACHED_LATER;
}

// without_hes says what is done instead; false if that is nothing.
static bool without_hes(void) {
  if (software()) mode_set(MODE_SOFTWARE, "%s", why);
  else say_off();
  return software();
}

static enum attached not_at_all(void) {
  say_off();
  return ATTACHED_NOT;
}

static struct callbacks_told told = {.initialised = attach_initialised, .refused = attach_refused};

void attach_on_context(void (*context)(void)) { told.context = context; }

static int subscribe(bool allow_multiple) {
  void *subscriber = NULL;
  int result;
  if (cupti.v2) {
    char other[64] = "";
    cupti_subscriber_params p = {.size = sizeof p,
                                 .name = "kernhes",
                                 .old_name = other,
                                 .old_size = sizeof other,
                                 .allow_multiple = allow_multiple};
    result = cupti.Subscribe_v2(&subscriber, callbacks_api, &told, &p);
  } else {
    result = cupti.Subscribe(&subscriber, callbacks_api, &told);
  }
  if (result == CUPTI_OK) atomic_store(&cupti.subscriber, subscriber);
  return result;
}

static int set_hes(void *subscriber) {
  uint8_t on = 1;
  size_t size = sizeof on;
  return cupti.ActivitySetAttribute_v2(subscriber, CUPTI_ENABLE_HES, &size, &on);
}

static bool hes_reads_back(void) {
  uint8_t on = 0;
  size_t size = sizeof on;
  return cupti.ActivityGetAttribute_v2(NULL, CUPTI_ENABLE_HES, &size, &on) == CUPTI_OK && on == 1;
}

// others_forbid asks whether a subscriber is there that lets no other in.
static bool others_forbid(void) {
  uint8_t state[8] = {2}; // 0: forbidden, 1: join, 2: nobody is there yet
  size_t size = 1;
  return cupti.ActivityGetAttribute_v2(NULL, CUPTI_SUBSCRIBER_STATE, &size, state) == CUPTI_OK && state[0] == 0;
}

static void refuse(const char *call, int result) {
  snprintf(why, sizeof why, "%s: %d, %s", call, result, cupti_result(result));
}

static int register_buffers(void) {
  if (cupti.v2) {
    return cupti.ActivityRegisterCallbacks_v2(cupti.subscriber, callbacks_request_v2, callbacks_complete_v2);
  }
  if (cupti.version < CUPTI_13_0 && cupti.ActivitySetAttribute != NULL) {
    uint8_t on = 1; // the default only since 13.0: without it threads contend for one buffer
    size_t size = sizeof on;
    cupti.ActivitySetAttribute(CUPTI_PER_THREAD_BUFFER, &size, &on);
  }
  return cupti.ActivityRegisterCallbacks(callbacks_request, callbacks_complete);
}

static void unsubscribe(void) {
  void *subscriber = atomic_exchange(&cupti.subscriber, NULL);
  if (subscriber != NULL) cupti.Unsubscribe(subscriber);
}

static int start_recording(void) {
  bool reserved = cupti.version >= CUPTI_NULL_BUFFER || scrap_open();
  int result = reserved ? register_buffers() : CUPTI_OUT_OF_MEMORY;
  for (size_t i = 0; i < KINDS && result == CUPTI_OK; i++) result = cupti_enable(kinds[i], true);
  atomic_store(&tracing, result == CUPTI_OK);
  return result;
}

static void stop_recording(void) {
  if (!atomic_exchange(&tracing, false)) return;
  for (size_t i = 0; i < KINDS; i++) cupti_enable(kinds[i], false);
}

static enum attached failed(const char *call, int result) {
  unsubscribe();
  mode_set(MODE_OFF, "%s: %d, %s", call, result, cupti_result(result));
  return result == CUPTI_MULTIPLE_SUBSCRIBERS ? ATTACHED_BUSY : ATTACHED_NOT;
}

// settle says the mode, last of all: whatever is launched once it says that it is traced, is.
static enum attached settle(bool hes, bool late) {
  if (hes && !late) {
    mode_set(MODE_OFF, "cuInit has not finished");
    return ATTACHED;
  }
  // HES can't be turned on any more, but it may have been in time, by us or by another subscriber.
  if (hes && (atomic_load(&hes_on) || (cupti.v2 && hes_reads_back()))) {
    mode_set(MODE_HES, "%s", "");
    return ATTACHED;
  }
  if (hes) snprintf(why, sizeof why, "HES cannot be turned on after the first context");
  if (without_hes()) return ATTACHED;
  stop_recording();
  unsubscribe();
  return not_at_all(); // said again, now that it is so
}

enum attached attach(bool late) {
  bool hes = attach_wants_hes(env_text(ENV_HES), cupti.version, why, sizeof why);
  atomic_store(&ended, false);
  static bool too_old; // asked once, in cuInit: it reads a directory, and the engine may close descriptors at any time
  if (!late) too_old = hes && gpus_too_old(NULL);
  if (hes && too_old) {
    hes = false;
    snprintf(why, sizeof why, "HES needs a Blackwell GPU or a newer one");
  }
  if (!hes && windows()) return later();
  // Not even subscribed for a moment: on an H200 that made graphs 11% slower for the rest of the process.
  if (!hes && !software()) return not_at_all();
  if (hes && !late) cupti_load_beside();
  bool set_after = false; // once subscribed, if CUPTI wants a subscriber for the attribute
  if (cupti.v2 && hes && !late) {
    int result = set_hes(NULL);
    set_after = result == CUPTI_INVALID_PARAMETER;
    hes = result == CUPTI_OK || set_after;
    if (!hes) refuse("setting HES", result);
    if (!hes && !software()) return not_at_all();
  }
  if (cupti.v2 && others_forbid()) return failed("subscribing", CUPTI_MULTIPLE_SUBSCRIBERS);
  int result = subscribe(!set_after);
  if (cupti.v2 && result != CUPTI_OK && result != CUPTI_MULTIPLE_SUBSCRIBERS && !set_after) result = subscribe(false);
  if (result != CUPTI_OK) return failed("subscribing", result);
  // Before any kind is enabled, as the attribute's documentation demands.
  if (set_after && (result = set_hes(cupti.subscriber)) != CUPTI_OK) refuse("setting HES", result);
  atomic_store(&pending, hes && !late);
  callbacks_count(hes && !late); // until it is clear whether CUPTI is to be left
  result = callbacks_enable(false);
  if (result != CUPTI_OK) return failed("enabling callbacks", result);
  result = attach_record();
  if (result != CUPTI_OK) return failed("enabling activity records", result);
  return settle(hes, late);
}

enum attached attach_listen(void) {
  atomic_store(&ended, false);
  atomic_store(&cupti.gone, false);
  if (cupti.v2 && others_forbid()) return ATTACHED_BUSY;
  // Alone: to finalize would take CUPTI from whoever else is subscribed.
  int result = subscribe(false);
  if (result == CUPTI_OK) result = callbacks_enable(true);
  if (result == CUPTI_OK) return ATTACHED;
  unsubscribe();
  log_line("subscribing: %d, %s", result, cupti_result(result));
  return result == CUPTI_MULTIPLE_SUBSCRIBERS ? ATTACHED_BUSY : ATTACHED_NOT;
}

int attach_record(void) {
  int result = start_recording();
  if (result != CUPTI_OK) {
    atomic_store(&tracing, true); // some kinds may be on
    stop_recording();
  }
  return result;
}

void attach_stop(void) { stop_recording(); }
void attach_unsubscribe(void) { unsubscribe(); }

// others_there asks whether another client subscribed since we unsubscribed. Before 13.3 nobody can be asked.
static bool others_there(void) {
  uint8_t state[8] = {2}; // 2: nobody is there
  size_t size = 1;
  return cupti.v2 && cupti.ActivityGetAttribute_v2(NULL, CUPTI_SUBSCRIBER_STATE, &size, state) == CUPTI_OK && state[0] != 2;
}

bool attach_finalize(void) {
  if (others_there()) return false;
  atomic_store(&cupti.gone, true); // before: a buffer that it gives back only now is not walked
  int result = cupti.Finalize();
  if (result != CUPTI_OK) log_line("cuptiFinalize: %d", result);
  return result == CUPTI_OK;
}

void attach_initialised(void) {
  if (!atomic_exchange(&pending, false)) return;
  bool on;
  if (cupti.v2) {
    on = hes_reads_back();
    if (!on && *why == 0) snprintf(why, sizeof why, "HES was asked for, but is not on after cuInit");
  } else if (cupti.ActivityEnableHWTrace == NULL) {
    on = false;
    snprintf(why, sizeof why, "CUPTI lacks cuptiActivityEnableHWTrace");
  } else {
    int result = cupti.ActivityEnableHWTrace(1);
    on = result == CUPTI_OK;
    if (!on) refuse("cuptiActivityEnableHWTrace", result);
  }
  atomic_store(&hes_on, on);
  if (on) mode_set(MODE_HES, "%s", "");
  if (on || without_hes()) {
    callbacks_count(false);
  } else {
    stop_recording(); // now, before a context exists that would pay for it; the rest goes with detach
    atomic_store(&ended, true);
  }
}

// is_refusal tells errors that mean "no HES here" from others: not supported, virtualised, confidential computing,
// CMP, MIG, SLI, WSL, MPS.
static bool is_refusal(uint32_t result) {
  return result == 27 || result == 33 || (result >= 41 && result <= 45) || result == 47;
}

void attach_refused(bool fatal, uint32_t result, const char *message) {
  if (message == NULL) message = "";
  log_line("CUPTI: %u, %s", result, message);
  if (!fatal && !is_refusal(result)) return;
  snprintf(why, sizeof why, "%s: %u, %s", fatal ? "CUPTI failed" : "HES was refused late", result, message);
  bool settled = !atomic_exchange(&pending, false);
  atomic_store(&hes_on, false);
  if (fatal) mode_set(MODE_OFF, "%s", why);
  else if (settled && mode_get().mode != MODE_HES) return;
  else if (without_hes()) {
    callbacks_count(false);
    return;
  }
  atomic_store(&ended, true);
}

void attach_exiting(void) { atomic_store(&exiting, true); }

bool attach_ended(void) { return atomic_load(&ended); }

// let_end lets what was launched while it was recorded come to its end: cut short, it has no times. CUPTI may keep a buffer
// in which nothing is; so there is a bound. Exit waits for us less long than that.
static void let_end(void) {
  for (int i = 0; i < 20 && pool_out() > 0 && !atomic_load(&exiting); i++) {
    usleep(25000);
    cupti.ActivityFlushAll(0);
    wake_sender();
  }
}

// flush_all has CUPTI give back all buffers, also those in which something still runs: left with it, they would go to
// whoever registers next. Only once nothing is recorded any more, since it cuts short what runs.
static void flush_all(void) {
  cupti.ActivityFlushAll(1);
  // Completed buffers are walked by means of the subscription: up to 200 ms for the sender to be done with them. CUPTI may
  // complete them slightly after the flush returns.
  for (int i = 0; i < 20 && (i == 0 || pool_waiting() > 0); i++) {
    usleep(10000);
    wake_sender();
  }
}

void attach_quiesce(const char *reason) {
  // First: what is launched from here on may or may not be seen.
  if (reason != NULL) mode_set(MODE_OFF, "%s", reason);
  if (!atomic_load(&tracing)) return;
  cupti.ActivityFlushAll(0);
  stop_recording();
  let_end();
  flush_all();
}

// nobody_inside waits until no thread is in a callback, the one that made the first context for one. CUPTI calls none any
// more; but a thread may be on its way in or out for as long as it does not get its core.
static bool nobody_inside(void) {
  for (int i = 0; i < 1000 && inside_count() > 0; i++) usleep(1000);
  usleep(100000);
  return inside_count() == 0;
}

// A process in which kinds were enabled before its first context, and that only unsubscribed, went on 30% slower on an
// H200; finalized, it was as fast as bare. With traced kernels still running finalizing has the GPU write to memory
// that is gone, and without a flush launches fail.
void detach(bool whole) {
  whole = whole && atomic_load(&cupti.subscriber) != NULL && cupti.Finalize != NULL;
  if (whole) cupti.ActivityFlushAll(0);
  unsubscribe();
  if (whole && nobody_inside()) cupti.Finalize();
  atomic_store(&ended, false);
  struct mode_state mode = mode_get();
  mode_set(mode.mode, "%s", mode.reason); // the same, but now others may subscribe
}
