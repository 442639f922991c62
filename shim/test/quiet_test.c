// Ranges while nothing is traced: the collector may want few of them, and says where steps are pushed. The pop of each range
// that was posted is posted, whatever was asked in between.
#include "capture/asked.h"
#include "capture/calls.h"
#include "capture/mode.h"
#include "capture/schemas.h"
#include "check.h"

#include <string.h>

static const struct payloads nothing;

static int push(uint32_t domain, const char *text) {
  struct text t = {.bytes = calls_hears(domain, true) ? text : NULL, .length = (uint32_t)strlen(text)};
  return calls_push(domain, t, nothing);
}

static uint64_t start(uint32_t domain) { return calls_start(0, domain, (struct text){.bytes = calls_hears(domain, false) ? "" : NULL}, nothing); }

// posted writes what lies in the ring: + and - with domain and depth, S for a start, P with the domain of a payload.
static const char *posted(void) {
  static uint8_t taken[1 << 16];
  static char text[256];
  char *to = text;
  *to = 0;
  size_t got = ring_take(events_ring(), taken, sizeof taken);
  for (size_t at = 0; at < got;) {
    const kw_event *e = (const void *)(taken + at);
    const kw_push *push = (const void *)e;
    const kw_pop *pop = (const void *)e;
    if (e->kind == KW_PUSH) to += sprintf(to, "+%u.%u", push->domain, push->depth);
    else if (e->kind == KW_POP) to += sprintf(to, "-%u.%u", pop->domain, pop->depth);
    else if (e->kind == KW_PAYLOAD) to += sprintf(to, "P%u", ((const kw_payload *)e)->domain);
    else to += sprintf(to, "%s", e->kind == KW_START ? "S" : e->kind == KW_END ? "E" : "?");
    at += e->length;
  }
  return text;
}

#define POSTED(want) CHECK(strcmp(posted(), want) == 0)

static void asking(void) {
  struct place p[ASKED_PLACES + 1];
  CHECK(asked_hears(0, 1) && asked_hears(5, 1000) && asked_hears(2000, KW_DEPTH_UNKNOWN)); // nobody has asked
  CHECK_EQUAL(asked_places(p, 1), 0);
  CHECK(!asked_at(0, 7, 1));

  asked_ranges(2, 1ull << 5);
  CHECK(asked_hears(0, 2) && !asked_hears(0, 3) && asked_hears(0, KW_DEPTH_UNKNOWN));
  CHECK(asked_hears(5, 1) && !asked_hears(5, 3) && !asked_hears(4, 1) && !asked_hears(69, 1) && !asked_hears(2000, 1));

  asked_place(70, 9, 4);
  CHECK(asked_hears(70, 1) && asked_hears(70, 4) && !asked_hears(70, 3) && !asked_hears(70, 5));
  CHECK(asked_at(70, 9, 4) && !asked_at(70, 8, 4) && !asked_at(70, 9, 3) && !asked_at(71, 9, 4));
  asked_place(70, 0, 6); // beside it: any thread
  CHECK(asked_at(70, 8, 6) && asked_at(70, 9, 4));
  asked_place(70, 9, 5); // in its place
  CHECK(!asked_at(70, 9, 4) && asked_at(70, 9, 5));
  CHECK_EQUAL(asked_places(p, ASKED_PLACES), 2);
  CHECK(p[0].domain == 70 && p[0].thread == 9 && p[0].depth == 5);
  asked_place(70, 9, 0);
  asked_place(70, 9, 0); // again
  CHECK(asked_places(p, ASKED_PLACES) == 1 && !asked_at(70, 9, 5) && asked_at(70, 9, 6));
  asked_place(70, 0, 0);
  CHECK(!asked_hears(70, 1));

  // What is out of bounds changes nothing; further places than there is room for are left out.
  asked_place(ASKED_DOMAINS, 1, 1);
  asked_place(1, 1ull << 32, 1);
  asked_place(1, 1, 1u << 22);
  asked_place(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  CHECK_EQUAL(asked_places(p, ASKED_PLACES), 0);
  asked_place(ASKED_DOMAINS - 1, UINT32_MAX, (1u << 22) - 1);
  CHECK(asked_at(ASKED_DOMAINS - 1, UINT32_MAX, (1u << 22) - 1) && asked_hears(ASKED_DOMAINS - 1, 1));
  for (uint32_t i = 1; i <= ASKED_PLACES; i++) asked_place(1, i, i);
  CHECK_EQUAL(asked_places(p, ASKED_PLACES + 1), ASKED_PLACES);
  CHECK(asked_at(1, ASKED_PLACES - 1, ASKED_PLACES - 1) && !asked_at(1, ASKED_PLACES, ASKED_PLACES));
  CHECK_EQUAL(asked_places(p, 3), 3);

  asked_ranges(0, UINT64_MAX); // all depths, of the first 64 domains
  CHECK(asked_hears(63, KW_DEPTH_UNKNOWN - 1) && !asked_hears(64, 1));
  asked_ranges(UINT64_MAX, 0);
  CHECK(asked_hears(0, 1u << 30));
  asked_nothing();
  for (uint32_t i = 1; i <= ASKED_PLACES; i++) asked_place(2, i, i); // there is room for as many again
  CHECK(asked_places(p, ASKED_PLACES + 1) == ASKED_PLACES && asked_at(2, ASKED_PLACES, ASKED_PLACES));
  asked_nothing();
  CHECK(asked_hears(64, 1) && asked_places(p, 1) == 0 && !asked_at(1, 1, 1));
}

// marks of the hooks say what a step took on the device, and what was in it: they pass whatever ranges are wanted.
static void marks(void) {
  nvtx_schema schema = {.fields = SCHEMA_SIZE | SCHEMA_ID, .size = 56, .id = NVTX_SCHEMA_STATIC + 1};
  uint8_t bytes[56] = {0};
  nvtx_payload data = {.schema = NVTX_SCHEMA_STATIC + 1, .size = sizeof bytes, .bytes = bytes};
  CHECK_EQUAL(schemas_add(6, &schema, 0), NVTX_SCHEMA_STATIC + 1);
  asked_ranges(1, 0);
  calls_mark(6, (struct payloads){&data, 1}); // also before any range of the domain
  calls_mark(6, (struct payloads){&data, 1});
  POSTED("P6P6");
  data.schema = NVTX_SCHEMA_STATIC + 2; // which nobody registered
  calls_mark(6, (struct payloads){&data, 1});
  POSTED("");
}

int main(void) {
  asking();
  CHECK(events_open(64u << 10));
  calls_live();
  mode_set(MODE_OFF, "off");
  CHECK(push(0, "a") == 0 && push(1, "b") == 0); // nobody has asked for less
  POSTED("+0.1+1.1");
  calls_pop(1, nothing);
  calls_pop(0, nothing);
  POSTED("-1.0-0.0");

  asked_ranges(2, 0);
  CHECK(push(0, "a") == 0 && push(0, "b") == 1 && push(0, "c") == 2 && push(0, "d") == 3); // levels are the engine's
  POSTED("+0.1+0.2");
  CHECK(calls_pop(0, nothing) == 3 && calls_pop(0, nothing) == 2);
  POSTED("");
  calls_pop(0, nothing);
  POSTED("-0.1");
  push(0, "b");
  POSTED("+0.2");

  // Of a domain that is not wanted the first range shows that there is such a domain. From domain 8 on no depth is known.
  CHECK_EQUAL(push(1, "first"), 0);
  push(1, "second");
  push(9, "first");
  uint64_t first = start(2), second = start(2), wanted = start(0);
  POSTED("+1.1+9.4294967295SS");
  calls_end(first, 0, nothing), calls_end(second, 0, nothing), calls_end(wanted, 0, nothing);
  POSTED("EE");
  calls_pop(1, nothing);
  calls_pop(1, nothing);
  calls_pop(9, nothing);
  POSTED("-1.0");
  asked_ranges(2, 1u << 9);
  push(9, "again");
  calls_pop(9, nothing);
  POSTED("+9.4294967295-9.4294967295");

  // Tracing goes on while ranges are open that were not posted: their pops are not, those of later ones are.
  push(0, "unheard"); // 3
  mode_set(MODE_SOFTWARE, "%s", "");
  push(0, "heard"); // 4
  POSTED("+0.4");
  mode_set(MODE_OFF, "off");
  asked_ranges(1, 0);
  push(0, "unheard"); // 5
  calls_pop(0, nothing);
  POSTED("");
  calls_pop(0, nothing); // whose push was posted
  POSTED("-0.3");
  mode_set(MODE_SOFTWARE, "%s", "");
  calls_pop(0, nothing);
  calls_pop(0, nothing);
  calls_pop(0, nothing);
  POSTED("-0.2-0.1-0.0");
  calls_pop(0, nothing); // one too many
  POSTED("-0.0");

  // A step is heard at its place, however deep.
  mode_set(MODE_OFF, "off");
  asked_place(0, 0, 3);
  push(0, "a"), push(0, "b"), push(0, "step"), push(0, "c");
  for (int i = 0; i < 4; i++) calls_pop(0, nothing);
  POSTED("+0.1+0.3-0.2-0.1-0.0");
  struct place one;
  CHECK_EQUAL(asked_places(&one, 2), 1); // none is left of those before asked_nothing

  marks();

  // What another library numbers is always posted: the ends of its ranges cannot be told apart.
  CHECK_EQUAL(calls_start(1ull << 63 | 5, 3, (struct text){0}, nothing), 1ull << 63 | 5);
  calls_end(1ull << 63 | 5, 3, nothing);
  POSTED("SE");

  calls_off();
  CHECK(!calls_hears(0, true));
  push(0, "a");
  calls_pop(0, nothing);
  POSTED("");
  return 0;
}
