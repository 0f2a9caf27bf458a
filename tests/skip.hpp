// SPDX-License-Identifier: MIT
// If something that a test needs is missing, the test is skipped and says what is missing. The test program then ends with 77, unless a
// test failed, and ctest counts this entry as skipped.
#pragma once

#include <doctest/doctest.h>

#include <set>
#include <string>

/// Write this after the name of a test case that needs something not available everywhere. Such cases are a separate entry in ctest,
/// FILE+WHAT. In an entry with other cases, one skipped case would make ctest count all cases as skipped. tests/CMakeLists.txt looks for
/// the word NEEDS.
#define NEEDS(what) *doctest::test_suite("needs " what)

namespace lazyprune_test {

/// The things that the skipped tests of this program needed.
inline std::set<std::string>& lacked() {
  static std::set<std::string> all;
  return all;
}

/// Notes that the running test, or some of it, is skipped because `what` is not available. `what` is a noun; tests/run.sh lists it.
inline void skip(const std::string& what) {
  MESSAGE("skipped: needs " << what);
  lacked().insert(what);
}

}  // namespace lazyprune_test
