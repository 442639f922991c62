// The shim as a guest in processes that are poor, locked up or badly set, and beside collectors that are false: each goes
// on as it would without the shim, and ends as it wants.
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include "../../transport/wire.h"
#include "host.h"

// launches is what an engine does, whatever becomes of the shim.
static void launches(uint32_t count) {
  for (uint32_t i = 1; i <= count; i++) {
    mock_launch l = {.cbid = 307, .correlation = i};
    mock->launch_enter(&l), mock->launch_exit(&l);
  }
}

static void engine(void) {
  init();
  mock->context_created(1, 0);
  launches(1000);
  usleep(200000); // some rounds of the shim's threads
  launches(1000);
}

// forbid has the kernel refuse these calls, as a sandbox does.
static void forbid(const int *calls, size_t count, int error) {
  struct sock_filter code[32] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  };
  size_t n = 1;
  for (size_t i = 0; i < count; i++) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA));
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
  CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void without_sockets(void) {
  static const int calls[] = {SYS_socket, SYS_connect};
  forbid(calls, 2, EACCES);
  engine();
  CHECK(socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EACCES);
  CHECK(threads() == 2 && calm());
  leave(7);
}

static void without_much(void) {
  static const int calls[] = {SYS_getsockopt, SYS_getrandom, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_prctl, SYS_uname};
  forbid(calls, sizeof calls / sizeof *calls, ENOSYS);
  engine();
  leave(7);
}

// sheds_rights: setuid waits for every thread, the shim's too, and binds it.
static void sheds_rights(void) {
  work();
  uid_t to = getuid() == 0 ? 65534 : getuid();
  CHECK(!setresuid(to, to, to));
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent *d; (d = readdir(tasks));) {
    char path[300], line[256];
    struct stat is;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
    FILE *f = *d->d_name == '.' ? NULL : fopen(path, "r");
    if (!f) continue;
    unsigned real = 0, effective = 0;
    while (fgets(line, sizeof line, f)) sscanf(line, "Uid: %u %u", &real, &effective);
    CHECK(!fstat(fileno(f), &is) && real == to && effective == to);
    fclose(f);
  }
  closedir(tasks);
  launches(1000);
  CHECK(threads() == 2 && connected());
  leave(7);
}

// settings gives each setting's name, as the library has them.
static size_t settings(char names[64][64]) {
  static char text[1 << 22];
  FILE *f = fopen(shim_path, "r");
  CHECK(f != NULL);
  size_t size = fread(text, 1, sizeof text, f), count = 0;
  CHECK(size > 0 && size < sizeof text && !fclose(f));
  for (char *at = text; (at = memmem(at, size - (size_t)(at - text), "KERNHES_", 8)); at++) {
    size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (at[n] != 0 || n >= 64 || (at > text && at[-1] != 0)) continue;
    size_t k = 0;
    while (k < count && strcmp(names[k], at)) k++;
    if (k < count) continue;
    CHECK(count < 64);
    snprintf(names[count++], 64, "%s", at);
  }
  return count;
}

static const char *const garbage[] = {"", " ", "%s%n%s%x", "\xff\xfe\x80\x01\n\r\t", "-1", "18446744073709551616", "0x7fffffffffffffff",
                                      "1e9", "/", "/dev/zero", "/nonexistent/../..", "unix://", "tcp://", "tcp://[::1", "a|b", ",,,", "on"};
enum { GARBAGE = sizeof garbage / sizeof *garbage, LONG_ONES = 100000 };

// badly_set: every setting has the same nonsense, each in a process of its own; then every one but the endpoint's.
static void badly_set(void) {
  static char long_one[LONG_ONES];
  char names[64][64];
  memset(long_one, 'A', sizeof long_one - 1);
  size_t count = settings(names);
  CHECK(count > 20);
  for (int i = 0; i <= GARBAGE; i++) {
    pid_t child = fork();
    if (!child) {
      for (size_t k = 0; k < count; k++)
        if (strcmp(names[k], "KERNHES_LOG") && (i % 2 == 0 || strcmp(names[k], "KERNHES_ENDPOINT")))
          setenv(names[k], i < GARBAGE ? garbage[i] : long_one, 1);
      static const char *const others[] = {"CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "SLURM_JOB_ID", "LD_PRELOAD"};
      for (size_t k = 0; k < sizeof others / sizeof *others; k++) setenv(others[k], i < GARBAGE ? garbage[i] : long_one, 1);
      init();
      mock->context_created(1, 0);
      launches(100);
      usleep(20000);
      leave(7);
    }
    int code = ended(child);
    if (code != 7) fprintf(stderr, "settings of %s: ended with %d\n", i < GARBAGE ? garbage[i] : "100,000 bytes", code);
    CHECK(code == 7);
  }
  exit(7);
}

// What a false collector does on each connection once it has heard something.
enum lie { FLOODS, CLAIMS_GIANTS, ACKNOWLEDGES_THE_FUTURE, SAYS_NOTHING, WELCOMES_AND_CLOSES, KNOWS_THE_FUTURE, OTHER_VERSION, REFUSES };

static void frame(int fd, uint16_t kind, const void *body, uint32_t length) {
  struct {
    kw_frame head;
    uint8_t body[64];
  } f = {.head = {.length = length, .kind = kind}};
  if (length > sizeof f.body) length = sizeof f.body; // it claims to be longer
  memcpy(f.body, body, length);
  send(fd, &f, sizeof f.head + length, MSG_NOSIGNAL);
}

static void flood(int fd) {
  static struct {
    kw_frame head;
    kw_control body;
  } f[512];
  for (uint32_t i = 0; i < 512; i++) {
    f[i].head = (kw_frame){.length = sizeof f->body, .kind = KW_CONTROL};
    f[i].body = (kw_control){.command = 1 + i % 6, .argument = {i % 4 == 0 ? UINT64_MAX : 0, UINT64_MAX, UINT64_MAX, i}};
  }
  while (send(fd, f, sizeof f, MSG_NOSIGNAL) > 0) continue;
}

static void lie_to(int fd, enum lie lie) {
  static uint8_t heard[1 << 16], zeros[64];
  kw_welcome w = {.magic = KW_MAGIC, .version = KW_VERSION + (lie == OTHER_VERSION)};
  if (lie == KNOWS_THE_FUTURE) w.received = w.acknowledged = UINT64_MAX;
  if (recv(fd, heard, sizeof heard, 0) <= 0) return;
  if (lie == REFUSES) frame(fd, KW_REFUSED, &(kw_refused){.code = KW_REFUSED_PROTOCOL, .length = UINT32_MAX}, sizeof(kw_refused));
  else if (lie != SAYS_NOTHING) frame(fd, KW_WELCOME, &w, sizeof w);
  if (lie == FLOODS) flood(fd);
  if (lie == CLAIMS_GIANTS) frame(fd, KW_CONTROL, zeros, UINT32_MAX);
  if (lie == ACKNOWLEDGES_THE_FUTURE) frame(fd, KW_ACK, &(kw_ack){.number = UINT64_MAX}, sizeof(kw_ack));
  if (lie == SAYS_NOTHING) pause();
}

// false_collector listens in a process of its own, where the shim is told that the collector is.
static pid_t false_collector(enum lie lie) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char endpoint[128];
  snprintf(address.sun_path, sizeof address.sun_path, "/tmp/mock-hosts-false.%d", (int)getpid());
  snprintf(endpoint, sizeof endpoint, "unix:///tmp/mock-hosts-false.%d", (int)getpid());
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  setenv("KERNHES_BUFFER_MB", "1", 1);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 16));
  pid_t child = fork();
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) lie_to(fd, lie);
    _exit(0);
  }
  close(listener);
  return child;
}

static void beside(enum lie lie) {
  pid_t collector = false_collector(lie);
  init();
  mock->context_created(1, 0);
  for (int i = 0; i < 300; i++) launches(100), usleep(1000);
  CHECK(calm());
  launches(100);
  mock->exiting();
  char path[64];
  snprintf(path, sizeof path, "/tmp/mock-hosts-false.%d", (int)getpid());
  kill(collector, SIGKILL);
  unlink(path);
  exit(7);
}

static void flooded(void) { beside(FLOODS); }
static void giants(void) { beside(CLAIMS_GIANTS); }
static void the_future(void) { beside(ACKNOWLEDGES_THE_FUTURE); }
static void silent(void) { beside(SAYS_NOTHING); }
static void welcomed_only(void) { beside(WELCOMES_AND_CLOSES); }
static void known_already(void) { beside(KNOWS_THE_FUTURE); }
static void other_version(void) { beside(OTHER_VERSION); }
static void refused(void) { beside(REFUSES); }

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
// little_memory: from the first context on there is only so much more address space. Sanitizers cannot live like that.
static void little_memory(void) {
  static const rlim_t more[] = {0, 64 << 10, 1 << 20, 3 << 20, 6 << 20, 9 << 20, 20 << 20};
  setenv("KERNHES_BUFFER_MB", "64", 1);
  setenv("KERNHES_LOG", "1", 1);
  setenv("KERNHES_POOL_BUFFER_KB", "1024", 1); // four of them, and 4 MiB for events
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    int said[2];
    CHECK(!pipe(said));
    pid_t child = fork();
    if (!child) {
      CHECK(dup2(said[1], STDERR_FILENO) == STDERR_FILENO);
      init();
      unsigned long pages = 0;
      FILE *f = fopen("/proc/self/statm", "r");
      CHECK(f != NULL && fscanf(f, "%lu", &pages) == 1 && !fclose(f));
      rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more[i];
      CHECK(!setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}));
      mock->context_created(1, 0);
      for (int k = 0; k < 30; k++) launches(10000), usleep(5000);
      char text[8192] = "";
      CHECK(read(said[0], text, sizeof text - 1) > 0);
      CHECK((strstr(text, "tracing: off: no memory for the buffers\n") != NULL) == (more[i] < 8 << 20));
      leave(7);
    }
    int code = ended(child);
    close(said[0]), close(said[1]);
    if (code != 7) fprintf(stderr, "%lu bytes more: ended with %d\n", (unsigned long)more[i], code);
    CHECK(code == 7);
  }
  exit(7);
}
#else
static void little_memory(void) { exit(7); }
#endif

const host_case guest_cases[] = {
    CASE(without_sockets, 7, 0), CASE(without_much, 7, -1), CASE(sheds_rights, 7, 1),  CASE(badly_set, 7, -1),
    CASE(flooded, 7, 0),         CASE(giants, 7, 0),        CASE(the_future, 7, 0),    CASE(silent, 7, 0),
    CASE(welcomed_only, 7, 0),   CASE(known_already, 7, 0), CASE(other_version, 7, 0), CASE(refused, 7, 0),
    CASE(little_memory, 7, -1),  {0},
};
