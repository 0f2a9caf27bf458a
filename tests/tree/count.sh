#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests run_tests of cmake/packages.sh: it counts tests that passed, failed or were skipped, says what the skipped ones need, and fails if a
# test failed.
#   count.sh TEST_PROGRAM FOLDER     TEST_PROGRAM has cases marked NEEDS("data")
set -u
cd "$(dirname "$0")/../.." || exit
. cmake/packages.sh

rm -rf "$2"
mkdir -p "$2"

# expect CODE LAST_LINE: runs the tests of CTestTestfile.cmake without the test data, and checks the last line and the exit code. CODE 1 stands
# for any exit code but 0.
expect() {
  said=$(LAZYPRUNE_TEST_DATA=/nowhere run_tests "$folder" 2>&1)
  code=$?
  last=$(echo "$said" | tail -n 1)
  [ "$last" = "$2" ] || fail "expected $2, found $said"
  [ $((code != 0)) -eq "$1" ] || fail "expected exit code $1, found $code"
}

folder=$2
tests=$folder/CTestTestfile.cmake
cat >"$tests" <<END
add_test(passes "$1" --source-file=*/files/json_lines.test.cpp)
add_test(skips "$1" "--test-suite=needs data")
add_test(skips_too "$1" "--test-suite=needs data")
set_tests_properties(passes skips skips_too PROPERTIES SKIP_RETURN_CODE 77)
END
expect 0 "1 passed, 0 failed, 2 skipped"
echo "$said" | grep -q '^ *2 test data .*LAZYPRUNE_TEST_DATA' || fail "expected what the two need, found $said"

echo 'add_test(fails "/bin/false")' >>"$tests"
echo 'add_test(is_missing "/nowhere/test")' >>"$tests"
expect 1 "1 passed, 2 failed, 2 skipped"

: >"$tests"
expect 1 "0 passed, 1 failed, 0 skipped"
