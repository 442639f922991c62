// A malloc hook, by LD_PRELOAD: counts what the code of one library allocates on this thread between hook_begin and hook_end.
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static uintptr_t low, high; // the library's addresses
static __thread int counted __attribute__((tls_model("initial-exec"))), counting __attribute__((tls_model("initial-exec")));

static void count(void *caller) {
  uintptr_t at = (uintptr_t)caller;
  if (counting && at >= low && at < high) counted++;
}

void *malloc(size_t n) {
  count(__builtin_return_address(0));
  return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
  count(__builtin_return_address(0));
  return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, n);
}

static int look(struct dl_phdr_info *info, size_t size, void *name) {
  (void)size;
  if (strstr(info->dlpi_name, name) == NULL) return 0;
  low = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD) continue;
    uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
    if (from < low) low = from;
    if (to > high) high = to;
  }
  return 1;
}

// hook_of chooses the library by a part of its path; 0: it is not loaded.
int hook_of(const char *name) {
  low = high = 0;
  return dl_iterate_phdr(look, (void *)(uintptr_t)name);
}

void hook_begin(void) {
  counted = 0;
  counting = 1;
}

int hook_end(void) {
  counting = 0;
  return counted;
}
