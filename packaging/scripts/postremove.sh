#!/bin/sh
# dpkg: "remove" keeps configuration, archive and users; "purge" removes them. rpm has no purge.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
rm -rf /etc/kernhes /var/lib/kernhes /run/kernhes
if getent passwd kernhes >/dev/null; then userdel kernhes; fi
for group in kernhes kernhes-engines; do
  if getent group $group >/dev/null; then groupdel $group; fi
done
