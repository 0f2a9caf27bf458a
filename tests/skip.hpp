// SPDX-License-Identifier: MIT
// A test that lacks what it needs says so. Its program then ends with 77, unless a test failed, and ctest counts the entry as skipped.
#pragma once

#include <doctest/doctest.h>

#include <set>
#include <string>

/// After the name of a test case that needs what is not everywhere. Such cases are an entry of their own in ctest, FILE+WHAT, so that no
/// skip hides among cases that ran. tests/CMakeLists.txt looks for this word.
#define NEEDS(what) *doctest::test_suite("needs " what)

namespace lazyprune_test {

/// What the tests of this program that skipped have lacked.
inline std::set<std::string>& lacked() {
  static std::set<std::string> all;
  return all;
}

/// Notes that the running test, or a part of it, is skipped because `what` is not here: a noun, which tests/run.sh lists.
inline void skip(const std::string& what) {
  MESSAGE("skipped: needs " << what);
  lacked().insert(what);
}

}  // namespace lazyprune_test
