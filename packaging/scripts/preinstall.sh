#!/bin/sh
# Makes the users. kernhes: the collector's; who is in its group may read the archive. kernhes-engines: who may connect.
set -e
getent group kernhes >/dev/null || groupadd --system kernhes
getent group kernhes-engines >/dev/null || groupadd --system kernhes-engines
getent passwd kernhes >/dev/null || useradd --system --gid kernhes --home-dir /var/lib/kernhes --no-create-home \
  --shell /usr/sbin/nologin --comment "kernhes collector" kernhes
