#include "transport/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNMAPPED 65534u // any user of another user namespace: the kernel's overflow uid

bool peer_uids(const char *list, uint32_t uid, bool *in) {
  *in = false;
  for (const char *at = list;; at++) {
    char *end;
    errno = 0;
    unsigned long long one = strtoull(at, &end, 10);
    if (*at < '0' || *at > '9' || errno != 0 || one >= UINT32_MAX) return false;
    if (one == uid) *in = true;
    at = end;
    if (*at == 0) return true;
    if (*at != ',') return false;
  }
}

// owns_folder: whoever owns the folder of the socket decides what lies there. Unmapped users look alike, so among them
// only the owner may be able to write there.
static bool owns_folder(const char *path, uint32_t uid) {
  char folder[sizeof ((struct sockaddr_un *)0)->sun_path + 2];
  struct stat is;
  int n = snprintf(folder, sizeof folder, "%s", path);
  char *slash = n < 0 || (size_t)n >= sizeof folder ? NULL : strrchr(folder, '/');
  if (slash == NULL) snprintf(folder, sizeof folder, ".");
  else slash[slash == folder] = 0;
  if (stat(folder, &is) != 0 || is.st_uid != uid) return false;
  return uid != UNMAPPED || (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool peer_trusted(const struct descriptor *socket, const char *endpoint, const char *allowed, char *why, size_t room) {
  *why = 0;
  if (strncmp(endpoint, "unix://", 7) != 0 || strcmp(allowed, "any") == 0) return true;
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (!descriptor_ours(socket) || getsockopt(socket->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    snprintf(why, room, "nobody says whose process listens there");
    return false;
  }
  bool trusted;
  if (!peer_uids(allowed, peer.uid, &trusted)) trusted = peer.uid == geteuid() || peer.uid == 0 || owns_folder(endpoint + 7, peer.uid);
  if (!trusted) snprintf(why, room, "a process of user %u listens there, which KERNHES_COLLECTOR_UID=%s does not allow", peer.uid, allowed);
  return trusted;
}
