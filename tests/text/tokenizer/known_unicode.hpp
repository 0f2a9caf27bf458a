// SPDX-License-Identifier: MIT
// Unicode's tables where the tests were built with the libraries that have them.
#pragma once

#include <doctest/doctest.h>

#include <lazyprune/text/tokenizer/unicode.hpp>
#if LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#endif

namespace lazyprune_test {

/// Null, and a message, where they are not there: the test then has nothing to do.
inline const lazyprune::unicode* known_unicode() {
#if LAZYPRUNE_HAVE_UNICODE
  return &lazyprune::installed_unicode();
#else
  MESSAGE("skipped: built without PCRE2 and utf8proc");
  return nullptr;
#endif
}

}  // namespace lazyprune_test
