// SPDX-License-Identifier: MIT
// Gives tests the Unicode tables, if the tests were built with PCRE2 and utf8proc.
#pragma once

#include <lazyprune/text/tokenizer/unicode.hpp>
#if LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#endif

#include "../../skip.hpp"

namespace lazyprune_test {

/// Returns the tables, or null if the build has no tables. If it returns null, the test leaves out the checks that need the tables.
inline const lazyprune::unicode* known_unicode() {
#if LAZYPRUNE_HAVE_UNICODE
  return &lazyprune::installed_unicode();
#else
  skip("PCRE2 and utf8proc (libpcre2-dev, libutf8proc-dev)");
  return nullptr;
#endif
}

}  // namespace lazyprune_test
