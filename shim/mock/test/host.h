// What processes that take the shim in have in common: how they come to it, and how it is looked at.
#ifndef KERNHES_MOCK_HOST_H
#define KERNHES_MOCK_HOST_H

#include <stdbool.h>
#include <sys/types.h>
#include "../mock.h"

enum { WRONG = 99 }; // how a process ends that found something wrong

extern const char *cupti_path, *shim_path;
extern const mock_control *mock; // after init

void check(bool holds, const char *what);
#define CHECK(holds) check(holds, #holds)

int threads(void);               // of the shim
bool soon(bool (*holds)(void));  // within 20 s
bool both_run(void);             // the shim's threads
bool connected(void);            // the shim has a socket. Nothing else here has one that is connected
bool calm(void);                 // waits half a second: the shim's threads use less than a fifth of it; two that spin use all
void init(void);                 // up to the end of cuInit
void work(void);                 // up to a launch, connected
_Noreturn void leave(int code);
int ended(pid_t child);          // how

// A process, how it ends, and how often it connects.
typedef struct {
  const char *name;
  void (*run)(void);
  int code, connections; // -1: as many as there are
} host_case;
#define CASE(name, code, connections) {#name, name, code, connections}

extern const host_case descriptor_cases[], guest_cases[]; // up to one without a name

#endif
