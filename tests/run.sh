#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing, builds, runs all tests. The last line counts them; before it stands what the skipped ones need.
# Where LAZYPRUNE_TEST_IN_FULL is set, it builds the benchmarks and tests at length, too.
#   sh tests/run.sh [--sanitize] [--clang]     in build/ (or $LAZYPRUNE_BUILD_DIR), build/sanitize, build/clang, build/clang-sanitize
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh

packages=$test_packages
settings=cmake/dev.cmake
compiler=
kind=
for option; do
  case $option in
    --sanitize) settings=cmake/sanitize.cmake ;;
    --clang) compiler=-DCMAKE_CXX_COMPILER=clang++ packages="$packages $clang_packages" kind=clang ;;
    *) fail "tests/run.sh: expected --sanitize or --clang, found $option" ;;
  esac
done
[ $settings = cmake/dev.cmake ] || kind=${kind:+$kind-}sanitize
folder=${LAZYPRUNE_BUILD_DIR:-build}${kind:+/$kind}

# shellcheck disable=SC2086
install_missing $packages
configure "$folder" -C $settings $compiler
build "$folder"
export OMP_WAIT_POLICY=passive # tests run side by side: threads that spin would wait for those of another
export LSAN_OPTIONS="suppressions=$PWD/cmake/sanitize.supp:print_suppressions=0"
run_tests "$folder"
