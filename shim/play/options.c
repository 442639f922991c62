#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "options.h"

static const char help[] =
    "kernhes-play [OPTION]... FILE...\n"
    "\n"
    "Plays recordings of CUPTI (.krec, .krec.zst) to libkernhes.so, as CUDA's driver, CUPTI and NVTX would: the same\n"
    "dlopen, symbols, callbacks and buffers. A process for each file; CLOCK_REALTIME in it is the recording's.\n"
    "\n"
    "  --speed N|recorded|max    N times as recorded, as recorded, or as fast as the client takes it, at most 100,000\n"
    "                            frames a second. Default: max. At max a client is waited for: while it has more than\n"
    "                            32 MiB unacknowledged (kernhes_unacknowledged) or no activity buffer free. When\n"
    "                            nothing is acknowledged for 50 ms it goes on slowly, up to 96 MiB\n"
    "  --rebase                  moves all times so that the play begins now\n"
    "  --loop                    again and again, times and correlation ids going on, graphs captured once; a seq= in a\n"
    "                            range of the default domain goes on as well. Ends by SIGINT or SIGTERM\n"
    "  --rounds N                the same, N times\n"
    "  --deliver flush|recorded  flush (default): records become ready as the clock passes their end, and are delivered\n"
    "                            when a buffer is full or the client flushes. recorded: where the file has them\n"
    "  --cupti VERSION           12080 12090 130000 130001 130100 130200 130300 130400 130401 130500. Default: the file's\n"
    "                            if it is one of these, else 130001\n"
    "  --stats                   at the end a line of JSON: what the faults took and what was delivered\n"
    "  --quiet                   no line a file\n"
    "  --help\n"
    "\n"
    "Exit status: 0 all was played and acknowledged; 1 no client; 2 a bad file or option; 3 something was left\n"
    "unacknowledged, also 10 s after a signal ended the play; of several files the highest; 128 + signal if a process was\n"
    "killed.\n"
    "\n"
    "Environment, beside the client's own:\n"
    "  KERNHES_LIB               the client. Default: libkernhes.so beside this program\n"
    "  KERNHES_MOCK_CUPTI        the mock. Default: mock/ beside this program\n"
    "  CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH   default: the client\n"
    "  KERNHES_RUN               default: one made up for all files\n"
    "  KERNHES_RANK              default: the file's; of several files always the file's\n"
    "  KERNHES_SOFTWARE          default: on\n"
    "  KERNHES_LINGER_MS         default: 600000\n"
    "  KERNHES_MOCK_HES          refused (default), accepted, or late: refused by a state callback after the first context\n"
    "  KERNHES_MOCK_NULL         ok (default) or invalid: what setting an attribute without a subscriber answers\n"
    "  KERNHES_MOCK_FAULT        a list, with commas, of\n"
    "      drop=N                every Nth kernel record is dropped and counted by CUPTI\n"
    "      drop-silent=N         and not counted\n"
    "      unreadable            the drop counter answers INVALID_PARAMETER\n"
    "      zero-start=N zero-end=N   every Nth kernel has no start or end\n"
    "      backward=N            every Nth kernel ends 1 ns before it starts\n"
    "      long=N                every Nth kernel takes an hour longer\n"
    "      future=N              every Nth kernel starts and ends two hours later\n"
    "      duplicate=N           every Nth kernel comes twice\n"
    "      withhold=N            the first N kernel records come when all else has come\n"
    "      unknown-kind=N        after every Nth kernel a record of kind 77\n"
    "      short-buffers         buffers come back with 3 to 20 records\n"
    "      truncate[=N]          the last record of every (Nth) buffer lacks its last 40 bytes\n"
    "      reorder=SEED          records come in disorder where their ends are within half a second of each other; then\n"
    "                            buffers where their first records are\n"
    "      hold-back             a running kernel holds back the records that stand behind it in the file\n"
    "      late-complete=MS      buffers come that long after the flush has returned\n"
    "      flush-slow=MS         each flush takes that much longer\n"
    "      flush-fail=N          every Nth flush fails, and nothing is delivered\n"
    "      busy[=N]              the first N subscriptions (all) answer 39: another client is there\n"
    "      guest=MS              another client subscribes the moment that the client leaves, for that long; the client then gets 39\n"
    "      patience=MS           a call that waits that long for a client's callback is a deadlock. Default: 30000\n"
    "      missing=SYMBOL        the library lacks that symbol\n"
    "      wrap                  correlation ids pass 2^32 in the middle of the file\n"
    "      kill-at=FRACTION      SIGKILL at that part of the frames\n"
    "      takeover=FRACTION     at that part of the frames the player closes all descriptors but the first three, and\n"
    "                            opens files of its own under their numbers. --stats tells how many (files) and of how\n"
    "                            many someone else closed, read or wrote (files_harmed)\n"
    "\n"
    "What CUPTI's documentation forbids ends the process: mock cupti: FORBIDDEN: ...\n";

void print_help(void) { fputs(help, stdout); }

enum { SPEED = 256, REBASE, LOOP, ROUNDS, DELIVER, CUPTI, STATS, QUIET, HELP, SHIFT, ANCHOR, ORIGIN, PERIOD };

static const struct option names[] = {
    {"speed", 1, NULL, SPEED},   {"rebase", 0, NULL, REBASE}, {"loop", 0, NULL, LOOP},     {"rounds", 1, NULL, ROUNDS},
    {"deliver", 1, NULL, DELIVER}, {"cupti", 1, NULL, CUPTI}, {"stats", 0, NULL, STATS},   {"quiet", 0, NULL, QUIET},
    {"help", 0, NULL, HELP},     {"shift", 1, NULL, SHIFT},   {"anchor", 1, NULL, ANCHOR}, {"origin", 1, NULL, ORIGIN},
    {"period", 1, NULL, PERIOD}, {0},
};

static bool number(const char *text, uint64_t *n) {
  char *end;
  *n = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end;
}

static bool set(options *o, int option, const char *value) {
  uint64_t n = 0;
  char *end;
  switch (option) {
  case SPEED:
    if (!strcmp(value, "max")) return o->speed = 0, true;
    if (!strcmp(value, "recorded")) return o->speed = 1, true;
    o->speed = strtod(value, &end);
    return !*end && o->speed > 0 && o->speed <= 1e6;
  case REBASE: return o->rebase = true;
  case LOOP: return o->loop = true;
  case ROUNDS: return number(value, &o->rounds) && o->rounds && (o->loop = true);
  case DELIVER:
    o->deliver_recorded = !strcmp(value, "recorded");
    return o->deliver_recorded || !strcmp(value, "flush");
  case CUPTI:
    if (!number(value, &n)) return false;
    return (o->cupti = (uint32_t)n) != 0;
  case STATS: return o->stats = true;
  case QUIET: return o->quiet = true;
  case HELP: return o->help = true;
  case SHIFT: return o->shift = strtoll(value, &end, 10), o->child = !*end;
  case ANCHOR: return number(value, &o->anchor);
  case ORIGIN: return number(value, &o->origin);
  case PERIOD: return number(value, &o->period);
  default: return false;
  }
}

bool read_options(int argc, char **argv, options *o) {
  *o = (options){0};
  opterr = 0;
  for (int option, index = 0; (option = getopt_long(argc, argv, "", names, &index)) != -1;) {
    if (option == '?' || !set(o, option, optarg ? optarg : "")) {
      fprintf(stderr, "kernhes-play: %s%s%s: not understood; see --help\n", argv[optind - 1], option == '?' || !optarg ? "" : " of ",
              option == '?' || !optarg ? "" : names[index].name);
      return false;
    }
  }
  o->files = argv + optind;
  o->n_files = argc - optind;
  if (o->n_files || o->help) return true;
  fprintf(stderr, "kernhes-play: no file; see --help\n");
  return false;
}
