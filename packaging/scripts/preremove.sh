#!/bin/sh
# dpkg: "remove", or "upgrade VERSION"; rpm: how many versions will be left. An upgrade restarts the collector at its end.
set -e
case "$1" in
  remove | 0) ;;
  *) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now kernhes.service
