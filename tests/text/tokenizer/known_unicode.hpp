// SPDX-License-Identifier: MIT
// Unicode's tables where the tests were built with the libraries that have them.
#pragma once

#include <lazyprune/text/tokenizer/unicode.hpp>
#if LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#endif

#include "../../skip.hpp"

namespace lazyprune_test {

/// Null where they are not there: the test then skips what needs them.
inline const lazyprune::unicode* known_unicode() {
#if LAZYPRUNE_HAVE_UNICODE
  return &lazyprune::installed_unicode();
#else
  skip("PCRE2 and utf8proc (libpcre2-dev, libutf8proc-dev)");
  return nullptr;
#endif
}

}  // namespace lazyprune_test
