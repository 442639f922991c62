#!/bin/sh
# dpkg calls it with "configure OLD-VERSION" (empty: first install), rpm with how many versions there are now.
set -e
case "$1" in
  configure) upgrade=$2 ;;
  1) upgrade= ;;
  [2-9]) upgrade=yes ;;
  *) exit 0 ;;
esac

# As /usr/lib/tmpfiles.d/kernhes.conf has it at each boot.
install -d -m 2750 -o kernhes -g kernhes-engines /run/kernhes

# Elsewhere, as in a container, someone else starts the collector.
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$upgrade" ]; then
  start=try-restart # a collector that was stopped stays stopped
else
  systemctl enable kernhes.service
  start=start
fi
# Such as with a port that another program has: that is mended without installing anew.
systemctl $start kernhes.service || echo "kernhes: the collector did not start: journalctl -u kernhes.service" >&2
