#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the manifest of the vcpkg port in cmake/vcpkg, installs the port, and builds ../project with it.
#   vcpkg.sh VCPKG_ROOT OUT_FOLDER FEATURE...
# FEATURE is core (the library without the features that need packages), or for example cpu. vcpkg fetches the packages that a feature needs.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
VCPKG_ROOT=$(cd "$1" && pwd) out=$2
shift 2
export VCPKG_ROOT VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_DISABLE_METRICS=1
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)

cp "$root/cmake/vcpkg/lazyprune/vcpkg.json" "$out"
"$VCPKG_ROOT/vcpkg" format-manifest "$out/vcpkg.json"
diff "$root/cmake/vcpkg/lazyprune/vcpkg.json" "$out/vcpkg.json"

for feature; do
  "$VCPKG_ROOT/vcpkg" install "lazyprune[$feature]" --classic --overlay-ports="$root/cmake/vcpkg" --x-install-root="$out/$feature" \
    --x-buildtrees-root="$out/buildtrees" --x-packages-root="$out/packages" --no-binarycaching >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
  if grep -i "warning:" "$out/log"; then # what vcpkg's checks of an installed port found
    exit 1
  fi
  cmake -S "$root/tests/consumer/project" -B "$out/project-$feature" -DLAZYPRUNE_BY=find_package -D_VCPKG_INSTALLED_DIR="$out/$feature" \
    -DCMAKE_TOOLCHAIN_FILE="$VCPKG_ROOT/scripts/buildsystems/vcpkg.cmake" -DVCPKG_MANIFEST_MODE=OFF
  cmake --build "$out/project-$feature"
  "$out/project-$feature/consumer"
done
