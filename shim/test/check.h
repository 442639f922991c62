// The tests' only tool: a check that ends the program and says where.
#ifndef KERNHES_CHECK_H
#define KERNHES_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

#define CHECK_EQUAL(got, want)                                                                  \
  do {                                                                                          \
    unsigned long long got_ = (unsigned long long)(got), want_ = (unsigned long long)(want);    \
    if (got_ != want_) {                                                                        \
      fprintf(stderr, "%s:%d: %s is %llu, want %llu\n", __FILE__, __LINE__, #got, got_, want_); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

#endif
