// Who listens at the endpoint, and whether that may be the collector. A socket in a folder into which others may write can
// be anybody's.
#ifndef KERNHES_PEER_H
#define KERNHES_PEER_H

#include "host/descriptor.h"

// peer_trusted tells whether a connected socket's other end may be given what the engine does. allowed is KERNHES_COLLECTOR_UID:
//   auto        this process's user, root, and the owner of the folder in which the socket lies
//   any         everybody
//   0,1000,...  these users
// With TCP nobody says whose process it is: then all are trusted. why (room bytes) is told the reason otherwise, in one line.
bool peer_trusted(const struct descriptor *socket, const char *endpoint, const char *allowed, char *why, size_t room);

// peer_uids tells whether a text is a list of users, and whether uid is in it.
bool peer_uids(const char *list, uint32_t uid, bool *in);

#endif
