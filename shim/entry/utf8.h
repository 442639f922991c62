// Wide strings, as NVTX may give them, to UTF-8.
#ifndef KERNHES_UTF8_H
#define KERNHES_UTF8_H

#include <stdint.h>
#include <wchar.h>

// utf8_from_wide writes at most room bytes, whole characters only, and returns how many. What is no character
// becomes U+FFFD.
static inline uint32_t utf8_from_wide(const wchar_t *from, char *to, uint32_t room) {
  uint32_t used = 0;
  for (; *from != 0; from++) {
    uint32_t c = (uint32_t)*from;
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    uint32_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (room - used < n) return used;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (uint32_t i = n; i-- > 1; c >>= 6) to[used + i] = (char)(0x80 | (c & 0x3f));
    to[used] = (char)(lead[n] | c);
    used += n;
  }
  return used;
}

#endif
