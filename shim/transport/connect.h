// Opening a socket to an endpoint.
#ifndef KERNHES_CONNECT_H
#define KERNHES_CONNECT_H

#include "host/descriptor.h"

enum connected { CONNECT_FAILED, CONNECT_SENSELESS, CONNECT_UNDERWAY, CONNECT_DONE };

// connect_begin opens a non-blocking socket, of a high number, to unix:///path or tcp://host:port. A host's name is resolved once in the
// life of the process, which may take as long as the resolver does.
enum connected connect_begin(const char *endpoint, struct descriptor *to);

#endif
