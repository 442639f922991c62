// Descriptors that the shim opens in a process that is not its own. The engine may close any of them, and its next
// file then gets the number. So a descriptor is known again by the device and inode of what it was opened for.
#ifndef KERNHES_DESCRIPTOR_H
#define KERNHES_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct descriptor {
  int fd; // -1: none
  uint64_t device, inode;
};

// descriptor_of notes what fd is, right after it was opened. No descriptor if fd is -1.
struct descriptor descriptor_of(int fd);

// descriptor_raise moves d to a high number, close-on-exec, and returns it: the kernel gives the engine's files the
// lowest free number, and the shim leaves those to it. Without a free high number it closes d and returns none.
struct descriptor descriptor_raise(struct descriptor d);

// descriptor_ours is asked before each use of d.fd: false once the engine has closed it or put something else there.
bool descriptor_ours(const struct descriptor *d);

// descriptor_read reads at a position, and moves no file's own position. -1 if d is no longer ours.
ssize_t descriptor_read(const struct descriptor *d, void *to, size_t room, size_t at);

// descriptor_close closes d if it is still ours. In any case it then holds none.
void descriptor_close(struct descriptor *d);

// descriptor_text reads the beginning of a small file, with a zero at its end; "" if it cannot be read. It returns to.
char *descriptor_text(const char *path, char *to, size_t room);

#endif
