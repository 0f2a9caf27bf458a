#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs missing packages, builds, and runs all tests. The last line counts the tests. The lines before it say what the skipped tests
# need. With LAZYPRUNE_TEST_IN_FULL set it also builds the benchmarks and runs the long tests.
#   sh tests/run.sh [--sanitize] [--clang] [--some-cases] [--only FOLDER]
# The build folder is build/ (or $LAZYPRUNE_BUILD_DIR), build/sanitize, build/clang or build/clang-sanitize. --only builds and runs the tests of
# one folder of tests/, or of one file: --only core, --only text/jinja, --only policy/scorer/key_norm. --some-cases builds the same tests, but
# runs only some of many similar cases, also with LAZYPRUNE_TEST_IN_FULL, and neither bench nor calibrate, which take minutes with sanitizers.
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh

packages=$test_packages
settings=cmake/dev.cmake
compiler=
kind=
some_cases=
only=
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) settings=cmake/sanitize.cmake ;;
    --clang) compiler=-DCMAKE_CXX_COMPILER=clang++ packages="$packages $clang_packages" kind=clang ;;
    --some-cases) some_cases=1 ;;
    --only)
      [ $# -gt 1 ] || fail "tests/run.sh: --only needs a folder of tests/"
      only=${2%/}
      shift
      ;;
    *) fail "tests/run.sh: expected --sanitize, --clang, --some-cases or --only FOLDER, found $1" ;;
  esac
  shift
done
[ $settings = cmake/dev.cmake ] || kind=${kind:+$kind-}sanitize
folder=${LAZYPRUNE_BUILD_DIR:-build}${kind:+/$kind}

# shellcheck disable=SC2086
install_missing $packages
configure "$folder" -C $settings $compiler
if [ -n "$only" ]; then
  [ -e "tests/$only" ] || [ -e "tests/$only.test.cpp" ] || fail "tests/run.sh: there is no tests/$only"
  target=tests.${only%%/*}
  cmake --build "$folder" --target help | grep -Eq "(^|[ /])$target(:|$| )" || fail "tests/run.sh: tests/$only cannot be tested alone; leave out --only"
  build "$folder" --target "$target"
else
  build "$folder"
fi
[ -z "$some_cases" ] || unset LAZYPRUNE_TEST_IN_FULL # the tests read it, too
export OMP_WAIT_POLICY=passive # tests run in parallel, and threads that spin would take time from other tests
export LSAN_OPTIONS="suppressions=$PWD/cmake/sanitize.supp:print_suppressions=0"
# shellcheck disable=SC2086
run_tests "$folder" ${some_cases:+--exclude-regex '^programs/commands/(bench|calibrate)'} ${only:+--tests-regex "^(emulated/|gpu/)?$only([/@+.]|\$)"}
