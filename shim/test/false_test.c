// A false collector: it speaks another version, acknowledges what was never sent, floods, refuses, and would like to have
// the token. It costs a connection; the next one, to the right collector, has every frame.
#include "check.h"
#include "host/clock.h"
#include "host/env.h"
#include "host/log.h"
#include "transport/link.h"
#include "transport/pairs.h"
#include "transport/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define TOKEN "s3cret"

static char folder[32], endpoint[80];
static int listener;
static struct losses losses;
static struct queue q = {.bound = 1 << 28, .losses = &losses};
static struct intern strings;
static struct link l;

// Linked with --wrap: a minute passes when the test says so.
static uint64_t passed;
uint64_t __real_clock_tick(void);
uint64_t __wrap_clock_tick(void);
uint64_t __wrap_clock_tick(void) { return __real_clock_tick() + passed; }

static uint64_t controls, welcomes;
static kw_control last;

static void control(const kw_control *c) {
  if (c == NULL) {
    welcomes++;
    return;
  }
  controls++;
  last = *c;
}

static void listen_at(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(folder, sizeof folder, "/tmp/false_test.XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
  snprintf(endpoint, sizeof endpoint, "unix://%s/s", folder);
  setenv("KERNHES_ENDPOINT", endpoint, 1);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 16) == 0);
}

// greeted has the link connect and say HELLO; it returns the collector's end.
static int greeted(void) {
  while (l.state != LINK_GREETING) {
    link_step(&l, &q, &strings);
    if (l.state == LINK_CLOSED) passed += 10 * MS;
  }
  link_step(&l, &q, &strings);
  int fd = accept(listener, NULL, NULL);
  CHECK(fd >= 0);
  return fd;
}

// heard_by gives all that the link has sent.
static size_t heard_by(int fd, uint8_t *to, size_t room) {
  size_t got = 0;
  for (ssize_t n; got < room && (n = recv(fd, to + got, room - got, MSG_DONTWAIT)) > 0;) got += (size_t)n;
  return got;
}

static bool has(const uint8_t *bytes, size_t n, const char *text) { return memmem(bytes, n, text, strlen(text)) != NULL; }

static uint64_t session_of(const uint8_t *hello) {
  kw_hello h;
  memcpy(&h, hello + sizeof(kw_frame), sizeof h);
  return h.session;
}

static void say(int fd, uint16_t kind, const void *body, uint32_t length) {
  kw_frame head = {.length = length, .kind = kind};
  CHECK(send(fd, &head, sizeof head, MSG_NOSIGNAL) == sizeof head);
  CHECK(length == 0 || send(fd, body, length, MSG_NOSIGNAL) == (ssize_t)length);
}

static void welcome(int fd, uint64_t acknowledged, uint64_t received) {
  kw_welcome w = {.magic = KW_MAGIC, .version = KW_VERSION, .acknowledged = acknowledged, .received = received};
  say(fd, KW_WELCOME, &w, sizeof w);
}

static void refuse(int fd, uint32_t code, const char *text) {
  struct {
    kw_refused r;
    char text[64];
  } body = {.r = {.code = code, .length = (uint32_t)strlen(text)}};
  memcpy(body.text, text, strlen(text));
  say(fd, KW_REFUSED, &body, (uint32_t)(sizeof body.r + strlen(text)));
}

static void acknowledge(int fd, uint64_t number) { say(fd, KW_ACK, &(kw_ack){.number = number}, sizeof(kw_ack)); }

// send_all: the collector has said WELCOME.
static void send_all(void) {
  while (l.state != LINK_LIVE || q.next != NULL || l.frame != NULL) link_step(&l, &q, &strings);
}

static void begin(uint32_t frames) {
  link_open(&l, 5, control);
  queue_free(&q);
  q = (struct queue){.bound = 1 << 28, .losses = &losses};
  for (uint32_t i = 0; i < frames; i++) queue_add(&q, KW_FLUSHED, &(kw_flushed){.now = 1}, sizeof(kw_flushed), (struct stake){0});
}

static void end(int fd) {
  link_close(&l, &q);
  close(fd);
}

static void check_pause(uint64_t least, uint64_t most) {
  CHECK_EQUAL(l.state, LINK_CLOSED);
  uint64_t pause = l.retry_at - __wrap_clock_tick();
  CHECK(pause <= most && pause > least - SECOND); // of which some have passed
}

// comes_back: after its pause it has the right collector acknowledge everything.
static void comes_back(void) {
  link_step(&l, &q, &strings);
  CHECK_EQUAL(l.state, LINK_CLOSED); // not before
  passed += MINUTE;
  int fd = greeted();
  welcome(fd, 0, 0);
  uint64_t before = welcomes;
  send_all();
  CHECK_EQUAL(welcomes, before + 1);
  acknowledge(fd, q.number);
  link_step(&l, &q, &strings);
  CHECK(q.first == NULL && l.state == LINK_LIVE);
  end(fd);
}

static void other_version(void) {
  begin(3);
  int fd = greeted();
  say(fd, KW_WELCOME, &(kw_welcome){.magic = KW_MAGIC, .version = KW_VERSION + 1}, sizeof(kw_welcome));
  link_step(&l, &q, &strings);
  check_pause(MINUTE, MINUTE);
  close(fd);
  comes_back();
  begin(3);
  fd = greeted();
  refuse(fd, KW_REFUSED_VERSION, "I speak 9");
  link_step(&l, &q, &strings);
  check_pause(MINUTE, MINUTE);
  close(fd);
  comes_back();
}

// The token is in HELLO and nowhere else, and is not kept.
static void token(void) {
  static uint8_t sent[1 << 16];
  begin(3);
  pairs_set(&q.base.pairs, "rank", "3");
  int fd = greeted();
  size_t n = heard_by(fd, sent, sizeof sent);
  CHECK(has(sent, n, "token" TOKEN) && has(sent, n, "rank3"));
  CHECK(!has(q.base.pairs.data, q.base.pairs.used, TOKEN));
  welcome(fd, 0, 0);
  send_all();
  n = heard_by(fd, sent, sizeof sent);
  CHECK(n > 3 * sizeof(kw_flushed) && !has(sent, n, TOKEN));
  CHECK(l.out.data == NULL);
  end(fd);
}

// What a collector says when it refuses goes to the log without what it may not say there.
static void words(void) {
  char said[1024] = "";
  int real = dup(STDERR_FILENO), pair[2];
  CHECK(pipe(pair) == 0 && dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
  log_enable(true);
  begin(0);
  for (int i = 0; i < 2; i++) {
    int fd = greeted();
    refuse(fd, KW_REFUSED_AUTH, i == 0 ? "not " TOKEN ", you" : "a\x1b[2Jb\nc");
    link_step(&l, &q, &strings);
    close(fd);
  }
  log_enable(false);
  CHECK(dup2(real, STDERR_FILENO) == STDERR_FILENO && close(real) == 0 && close(pair[1]) == 0);
  CHECK(read(pair[0], said, sizeof said - 1) > 0);
  CHECK(strstr(said, TOKEN) == NULL && strstr(said, "the collector refuses: 4, a?[2Jb?c\n") != NULL);
  close(pair[0]);
}

// Giant frames, ones out of place, and acknowledgements from the future end the connection.
static void nonsense(void) {
  static const struct {
    uint32_t length;
    uint16_t kind;
    bool ends;
  } heads[] = {{KW_MAX_BODY + 1, 99, true},   {KW_MAX_BODY, 99, false},        {KW_MAX_BODY, KW_CONTROL, true},
               {UINT32_MAX, KW_ACK, true},    {sizeof(kw_ack) + 8, KW_ACK, true}, {sizeof(kw_control) - 8, KW_CONTROL, true},
               {sizeof(kw_control), KW_CONTROL, false}, {8192, KW_REFUSED, true}};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    uint8_t body[256] = {0};
    begin(1);
    int fd = greeted();
    welcome(fd, 0, 0);
    link_step(&l, &q, &strings);
    CHECK_EQUAL(l.state, LINK_LIVE);
    kw_frame head = {.length = heads[i].length, .kind = heads[i].kind};
    CHECK(send(fd, &head, sizeof head, 0) == sizeof head && send(fd, body, sizeof body, 0) == sizeof body);
    link_step(&l, &q, &strings);
    CHECK_EQUAL(l.state == LINK_CLOSED, heads[i].ends);
    end(fd);
  }
  for (uint64_t number = 2; number != 0; number = number == 2 ? UINT64_MAX : 0) {
    begin(2);
    int fd = greeted();
    welcome(fd, 0, 0);
    while (l.state != LINK_LIVE) link_step(&l, &q, &strings);
    q.sent = 1; // of two
    acknowledge(fd, number);
    link_step(&l, &q, &strings);
    CHECK(l.state == LINK_CLOSED && q.first->number == 1);
    end(fd);
  }
}

// A flood of commands is obeyed up to 1 MiB, then it is over for a minute.
static void flood(void) {
  static struct {
    kw_frame head;
    kw_control body;
  } many[1000];
  for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
    many[i].head = (kw_frame){.length = sizeof many[i].body, .kind = KW_CONTROL};
    many[i].body = (kw_control){.command = KW_COMMAND_YIELD, .argument = {i}};
  }
  begin(1);
  int fd = greeted();
  CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  welcome(fd, 0, 0);
  controls = 0;
  size_t at = 0;
  for (int turns = 0; l.state != LINK_CLOSED; turns++) {
    CHECK(turns < 100000);
    ssize_t n = send(fd, (uint8_t *)many + at, sizeof many - at, MSG_NOSIGNAL);
    if (n > 0) at = (at + (size_t)n) % sizeof many;
    link_step(&l, &q, &strings);
  }
  CHECK(controls >= 1 && controls <= (1u << 20) / sizeof *many + 1);
  CHECK_EQUAL(last.argument[0], (controls - 1) % 1000); // each was given, in order
  check_pause(MINUTE, MINUTE);
  close(fd);
  comes_back();
}

// Somebody else said BYE for the session, or goes on refusing it: another one begins, with every frame that waits.
static void disowned(void) {
  static uint8_t sent[1 << 16];
  begin(3);
  int fd = greeted();
  size_t n = heard_by(fd, sent, sizeof sent);
  CHECK_EQUAL(session_of(sent), 5);
  CHECK(!link_disowned(&l));
  welcome(fd, 9, 9); // frames that never were
  link_step(&l, &q, &strings);
  CHECK(l.state == LINK_CLOSED && link_disowned(&l));
  CHECK_EQUAL(q.first->number, 1);
  close(fd);
  link_renew(&l, &q, 6);
  CHECK(!link_disowned(&l));
  fd = greeted();
  n = heard_by(fd, sent, sizeof sent);
  CHECK_EQUAL(session_of(sent), 6);
  welcome(fd, 0, 0);
  send_all();
  n = heard_by(fd, sent, sizeof sent);
  CHECK_EQUAL(n, sizeof(kw_frame) + sizeof(kw_base) + 3 * (sizeof(kw_frame) + sizeof(kw_flushed)));
  close(fd);
  while (l.state != LINK_CLOSED) link_step(&l, &q, &strings);
  passed += MINUTE;
  for (int i = 0; i < 4; i++) { // the collector is full: that is no dispute
    fd = greeted();
    refuse(fd, KW_REFUSED_LIMIT, "no");
    link_step(&l, &q, &strings);
    close(fd);
    CHECK(!link_disowned(&l));
  }
  for (int i = 0; i < 3; i++) { // somebody said BYE as frame 2
    CHECK(!link_disowned(&l));
    fd = greeted();
    welcome(fd, 0, 2);
    send_all();
    refuse(fd, KW_REFUSED_PROTOCOL, "frame 3 after BYE");
    link_step(&l, &q, &strings);
    close(fd);
  }
  CHECK(link_disowned(&l));
  l.renew_at = __wrap_clock_tick() + MINUTE;
  CHECK(!link_disowned(&l)); // a session lasts a minute at least
  // A frame that is acknowledged shows that all is well.
  fd = greeted();
  welcome(fd, 0, 2);
  send_all();
  acknowledge(fd, 1);
  link_step(&l, &q, &strings);
  CHECK(!link_disowned(&l));
  end(fd);
}

// The time between two attempts grows until a frame is acknowledged: WELCOME alone is cheap.
static void backoff(void) {
  static const uint64_t want[] = {50, 100, 200, 400, 800, 1000, 1000};
  begin(2);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    int fd = greeted();
    welcome(fd, 0, 0);
    link_step(&l, &q, &strings);
    CHECK_EQUAL(l.backoff, want[i] * MS);
    close(fd);
    while (l.state != LINK_CLOSED) link_step(&l, &q, &strings);
  }
  int fd = greeted();
  welcome(fd, 0, 0);
  send_all();
  acknowledge(fd, 0); // of nothing
  link_step(&l, &q, &strings);
  CHECK_EQUAL(l.backoff, 1000 * MS);
  acknowledge(fd, 1);
  link_step(&l, &q, &strings);
  CHECK_EQUAL(l.backoff, 50 * MS);
  end(fd);
}

static bool listed(const char *list, uint32_t uid, bool *is_list) {
  bool in;
  *is_list = peer_uids(list, uid, &in);
  return in;
}

static void users(void) {
  bool is_list;
  CHECK(listed("0", 0, &is_list) && is_list);
  CHECK(!listed("0", 1, &is_list) && is_list);
  CHECK(listed("7,1000", 1000, &is_list) && is_list);
  CHECK(listed("7,1000", 7, &is_list) && is_list);
  CHECK(!listed("7,1000", 100, &is_list) && is_list);
  CHECK(listed("4294967294", 4294967294u, &is_list) && is_list);
  static const char *const none[] = {"", "auto", "-1", "7,", ",7", "7;8", "7,x", " 7", "4294967295", "99999999999999999999"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    listed(none[i], 7, &is_list);
    CHECK(!is_list);
  }
}

static bool trusts(const struct descriptor *d, const char *allowed) {
  char why[160];
  bool trusted = peer_trusted(d, endpoint, allowed, why, sizeof why);
  CHECK(trusted == (*why == 0));
  return trusted;
}

// served_as has a child that is another user listen in a folder of the same or of another owner, and tells whether that
// is trusted by itself.
static bool served_as(uid_t uid, uid_t owner, mode_t mode) {
  char path[64];
  int ready[2], trusted;
  snprintf(path, sizeof path, "%s/other", folder);
  CHECK(mkdir(path, 0700) == 0 && chown(path, owner, (gid_t)-1) == 0 && chmod(path, mode) == 0 && pipe(ready) == 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
  pid_t child = fork();
  if (child == 0) {
    if (setuid(uid) != 0 || listen(fd, 1) != 0 || write(ready[1], "", 1) != 1) _exit(1);
    pause();
  }
  char byte, other[128], why[160];
  CHECK(read(ready[0], &byte, 1) == 1);
  struct descriptor d = descriptor_of(socket(AF_UNIX, SOCK_STREAM, 0));
  CHECK(connect(d.fd, (struct sockaddr *)&address, sizeof address) == 0);
  snprintf(other, sizeof other, "unix://%s", address.sun_path);
  trusted = peer_trusted(&d, other, "auto", why, sizeof why);
  descriptor_close(&d);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CHECK(close(fd) == 0 && close(ready[0]) == 0 && close(ready[1]) == 0 && unlink(address.sun_path) == 0 && rmdir(path) == 0);
  return trusted;
}

static void peers(void) {
  char mine[32], other[32], why[160];
  snprintf(mine, sizeof mine, "99999,%u", (unsigned)getuid());
  snprintf(other, sizeof other, "%u", (unsigned)getuid() + 1);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, endpoint + 7, strlen(endpoint + 7) + 1);
  struct descriptor d = descriptor_of(socket(AF_UNIX, SOCK_STREAM, 0)), none = {.fd = -1};
  CHECK(connect(d.fd, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(trusts(&d, "auto") && trusts(&d, mine) && trusts(&d, "any") && trusts(&d, "nonsense"));
  CHECK(!trusts(&d, other));
  CHECK(!trusts(&none, "auto"));
  CHECK(peer_trusted(&none, "tcp://host:1", other, why, sizeof why)); // nobody says who that is
  close(accept(listener, NULL, NULL));
  descriptor_close(&d);
  if (getuid() != 0) return; // only root can have others listen
  CHECK(!served_as(1234, 0, 0755));
  CHECK(!served_as(1234, 0, 01777));
  CHECK(served_as(1234, 1234, 0755));
  CHECK(served_as(1234, 1234, 0777));
  CHECK(!served_as(1234, 1235, 0777));
  CHECK(served_as(65534, 65534, 0755)); // of another user namespace, or nobody
  CHECK(!served_as(65534, 65534, 0777));
}

// untrusted: whoever may not be the collector gets no byte, and is asked again in a minute.
static void untrusted(void) {
  uint8_t byte;
  begin(1);
  while (l.pause == 0 && l.retry_at == 0) link_step(&l, &q, &strings);
  check_pause(MINUTE, MINUTE);
  CHECK_EQUAL(l.connects, 0);
  int fd = accept(listener, NULL, NULL);
  CHECK_EQUAL(recv(fd, &byte, 1, 0), 0);
  close(fd);
}

// in_child runs a case with other settings: they are read once.
static void in_child(void (*run)(void), const char *name, const char *value) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    setenv(name, value, 1);
    env_load();
    run();
    queue_free(&q);
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQUAL(status, 0);
}

static void token_in_file(void) {
  static uint8_t sent[1 << 16];
  for (int i = 0; i < 2; i++) { // read anew for each connection
    FILE *f = fopen(env_text(ENV_TOKEN_FILE), "w");
    CHECK(f != NULL && fprintf(f, "from-file-%d\nnot this\n", i) > 0 && fclose(f) == 0);
    begin(0);
    int fd = greeted();
    size_t n = heard_by(fd, sent, sizeof sent);
    CHECK(has(sent, n, i == 0 ? "tokenfrom-file-0" : "tokenfrom-file-1") && !has(sent, n, "not this"));
    end(fd);
  }
  unlink(env_text(ENV_TOKEN_FILE));
  begin(0);
  int fd = greeted();
  size_t n = heard_by(fd, sent, sizeof sent);
  CHECK(n > 0 && !has(sent, n, "token"));
  end(fd);
}

int main(void) {
  char path[64], other[32];
  listen_at();
  users();
  peers();
  snprintf(path, sizeof path, "%s/token", folder);
  snprintf(other, sizeof other, "%u", (unsigned)getuid() + 1);
  in_child(untrusted, "KERNHES_COLLECTOR_UID", other);
  in_child(token_in_file, "KERNHES_TOKEN_FILE", path);
  setenv("KERNHES_TOKEN", TOKEN, 1);
  env_load();
  other_version();
  token();
  words();
  nonsense();
  flood();
  disowned();
  backoff();
  queue_free(&q);
  unlink(endpoint + 7);
  rmdir(folder);
  return 0;
}
