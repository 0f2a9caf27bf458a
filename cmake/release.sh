#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the files of a release from the commit HEAD. It installs the packages that it needs.
#   cmake/release.sh OUT
# OUT must not exist. It gets the sources, a tarball and a Debian package of the programs, the C library and all headers, the single header
# of policies and sessions, the wheel and the sources of the package for transformers, and SHA256SUMS. If a step fails, there is no OUT.
set -eu
case ${1-} in "" | /*) ;; *) set -- "$PWD/$1" ;; esac
cd "$(dirname "$0")/.."
. cmake/packages.sh
[ $# -eq 1 ] || fail "cmake/release.sh: expected the folder to make"
[ ! -e "$1" ] || fail "$1: exists already. Name a folder that does not exist"
# shellcheck disable=SC2086
install_missing $library_packages git dpkg-dev python3-venv

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/out"
git archive --prefix=sources/ HEAD | tar x -C "$work"
cd "$work/sources"
version=$(sed -n 's/^#define LAZYPRUNE_VERSION_STRING "\(.*\)"$/\1/p' include/lazyprune/version.hpp)
grep -q "\"version\": \"$version\"" cmake/vcpkg/lazyprune/vcpkg.json || fail "cmake/vcpkg/lazyprune/vcpkg.json: expected the version $version"
grep -q "^## $version\$" include/lazyprune/CHANGES.md || fail "include/lazyprune/CHANGES.md: expected a section '## $version'"
tar czf "$work/out/lazyprune-$version-source.tar.gz" --transform "s,^[.],lazyprune-$version," .

(configure "$work/build" -DLAZYPRUNE_BUILD_TESTS=OFF -DLAZYPRUNE_BUILD_BENCH=OFF && build "$work/build")
cpack --config "$work/build/CPackConfig.cmake" -G "TGZ;DEB" -B "$work/packages"
mv "$work"/packages/*.tar.gz "$work"/packages/*.deb "$work/out"
cmake --install "$work/build" --prefix "$work/installed" >/dev/null
cp "$work/installed/include/lazyprune_single.hpp" "$work/out"

python3 -m venv "$work/python"
"$work/python/bin/python" -m pip install -q build
"$work/python/bin/python" -m build --outdir "$work/out" examples/transformers >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

cd "$work/out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
mkdir -p "$(dirname "$1")"
mv "$work/out" "$1"
