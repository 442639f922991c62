// kernhes-play: one file is played in this process; of several, each in one of its own.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "clock.h"
#include "driver.h"
#include "options.h"
#include "play.h"
#include "takeover.h"

static _Atomic bool stop, played; // played: only the client's exit is left
static options opt;
static recording rec;
static outcome result;

enum { GRACE_S = 10 };

static void on_parent_signal(int number) {
  (void)number;
  stop = true;
}

// The first signal ends the play; the client then has some time to part from its collector, which may not be there.
static void on_signal(int number) {
  if (number == SIGALRM || played) {
    static const char said[] = "kernhes-play: ended by a signal before all was acknowledged\n";
    ssize_t unused = write(2, said, sizeof said - 1);
    (void)unused;
    _exit(number == SIGALRM ? 3 : 128 + number);
  }
  if (!stop) alarm(GRACE_S);
  stop = true;
}

static void catch_signals(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGALRM, &action, NULL);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// last_words runs after the client's own exit handlers: it was registered before the client was loaded.
static void last_words(void) {
  mock_stats s;
  cupti->stats(&s);
  if (!opt.quiet)
    printf("%s: rank %s: %llu kernels, %llu copies, %llu launches, %.3f s in %.3f s\n", base_name(rec.path),
           getenv("KERNHES_RANK") ? getenv("KERNHES_RANK") : "-", (unsigned long long)s.delivered_kernels,
           (unsigned long long)s.delivered_copies, (unsigned long long)result.launches,
           (double)(rec.last - rec.first) / 1e9 * (double)(result.rounds ? result.rounds : 1), result.seconds);
  const struct { const char *name; uint64_t value; } fields[] = {
      {"dropped", s.dropped}, {"dropped_silent", s.dropped_silent}, {"zero", s.zero}, {"backward", s.backward},
      {"too_long", s.too_long}, {"future", s.future}, {"withheld", s.withheld},
      {"duplicated", s.duplicated}, {"truncated", s.truncated}, {"unknown", s.unknown}, {"untraced", s.untraced},
      {"unfinished", s.unfinished}, {"no_buffer", s.no_buffer}, {"guests", s.guests}, {"buffers", s.buffers}, {"launches", result.launches},
      {"rounds", result.rounds}, {"delivered_kernels", s.delivered_kernels}, {"delivered_copies", s.delivered_copies},
      {"files", takeover_files()}, {"files_harmed", takeover_harmed()}, {"unacknowledged", unacknowledged()}};
  if (opt.stats) {
    printf("{\"file\":\"%s\"", base_name(rec.path));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) printf(",\"%s\":%llu", fields[i].name, (unsigned long long)fields[i].value);
    printf("}\n");
  }
  fflush(stdout);
  if (!unacknowledged()) return;
  fprintf(stderr, "kernhes-play: %s: %llu bytes were not acknowledged\n", rec.path, (unsigned long long)unacknowledged());
  _exit(3);
}

static void set_environment(void) {
  char run[64];
  snprintf(run, sizeof run, "play-%d-%llx", getpid(), (unsigned long long)realtime_now());
  setenv("KERNHES_RUN", run, 0);
  setenv("KERNHES_SOFTWARE", "on", 0);
  setenv("KERNHES_LINGER_MS", "600000", 0);
}

static int play_one(void) {
  if (!read_recording(opt.files[0], &rec)) return 2;
  if (rec.rank[0]) setenv("KERNHES_RANK", rec.rank, opt.child);
  if (!opt.child) {
    opt.origin = rec.first;
    opt.anchor = monotonic_now();
    if (opt.rebase) opt.shift = (int64_t)(realtime_now() - rec.first);
    opt.period = rec.last - rec.first + 1000000;
  }
  if (!load_cupti(&opt, rec.cupti)) return 2;
  clock_begin(opt.origin + (uint64_t)opt.shift, opt.anchor, opt.speed);
  catch_signals(on_signal);
  atexit(last_words);
  cupti->start(opt.speed == 0);
  if (!start_driver(&rec)) return 1;
  play(&rec, &opt, &stop, &result);
  cupti->exiting();
  if (!stop) played = true;
  return 0;
}

// arguments are ours, with what all files share in front and one file at the end.
static char **arguments(int argc, char **argv, char *file) {
  static char shared[4][64];
  snprintf(shared[0], sizeof shared[0], "--shift=%lld", (long long)opt.shift);
  snprintf(shared[1], sizeof shared[1], "--anchor=%llu", (unsigned long long)opt.anchor);
  snprintf(shared[2], sizeof shared[2], "--origin=%llu", (unsigned long long)opt.origin);
  snprintf(shared[3], sizeof shared[3], "--period=%llu", (unsigned long long)opt.period);
  char **args = calloc((size_t)argc + 7, sizeof *args);
  if (!args) abort();
  int n = 0;
  args[n++] = argv[0];
  for (int i = 0; i < 4; i++) args[n++] = shared[i];
  for (int i = 1; i < argc - opt.n_files; i++) args[n++] = argv[i]; // getopt has moved the files to the end
  args[n++] = file;
  return args;
}

static bool share_time(void) {
  uint64_t longest = 0;
  opt.origin = UINT64_MAX;
  for (int i = 0; i < opt.n_files; i++) {
    recording r;
    bool sound = read_recording(opt.files[i], &r);
    if (r.first < opt.origin) opt.origin = r.first;
    if (r.last > longest) longest = r.last;
    free_recording(&r);
    if (!sound) return false;
  }
  opt.period = longest - opt.origin + 1000000;
  opt.anchor = monotonic_now() + 300000000; // time to start them
  if (opt.rebase) opt.shift = (int64_t)(realtime_now() + 300000000 - opt.origin);
  return true;
}

static int play_all(int argc, char **argv) {
  if (!share_time()) return 2;
  pid_t *children = calloc((size_t)opt.n_files, sizeof *children);
  if (!children) abort();
  catch_signals(on_parent_signal);
  pid_t parent = getpid();
  for (int i = 0; i < opt.n_files; i++) {
    char **args = arguments(argc, argv, opt.files[i]);
    if (!(children[i] = fork())) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      execv("/proc/self/exe", args);
      _exit(127);
    }
    free(args);
    if (children[i] < 0) return perror("kernhes-play: fork"), 1;
  }
  int worst = 0;
  for (int i = 0, told = 0; i < opt.n_files;) {
    int status;
    if (stop && !told) {
      for (int c = i; c < opt.n_files; c++) kill(children[c], SIGTERM);
      told = 1;
    }
    if (waitpid(children[i], &status, told ? 0 : WNOHANG) != children[i]) {
      usleep(5000);
      continue;
    }
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code > worst) worst = code;
    i++;
  }
  free(children);
  return worst;
}

int main(int argc, char **argv) {
  if (!read_options(argc, argv, &opt)) return 2;
  if (opt.help) return print_help(), 0;
  set_environment();
  return opt.n_files == 1 ? play_one() : play_all(argc, argv);
}
