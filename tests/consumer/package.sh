#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the Debian package, unpacks it, runs its program, and asks apt whether it could install it.
#   package.sh CPACK BUILD_FOLDER OUT_FOLDER CONFIGURATION
set -eu
rm -rf "$3"
mkdir -p "$3"
"$1" -G DEB -C "$4" --config "$2/CPackConfig.cmake" -B "$3" >"$3/log" || { cat "$3/log"; exit 1; }
deb=$(ls "$3"/*.deb)
dpkg-deb --info "$deb"
dpkg-deb --extract "$deb" "$3/root"
"$3/root/usr/bin/lazyprune" inspect >/dev/null
if ! command -v apt-get >/dev/null; then
  echo "skipped: needs apt-get"
  exit 77
fi
apt-get --simulate --no-download install "$deb" | grep "^Inst lazyprune "
