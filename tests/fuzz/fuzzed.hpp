// SPDX-License-Identifier: MIT
// Shared by the fuzz targets.
#pragma once

#include <lazyprune/core/error.hpp>
#ifdef LAZYPRUNE_HAVE_UNICODE
#include <lazyprune/text/unicode/installed.hpp>
#else
#include <lazyprune/text/tokenizer/unicode.hpp>
#endif

#include <cstdlib>
#include <string_view>

namespace lazyprune_test {

#ifdef LAZYPRUNE_HAVE_UNICODE
inline const lazyprune::unicode* const characters = &lazyprune::installed_unicode();
#else
inline const lazyprune::unicode* const characters = nullptr;
#endif

/// Calls `call`, which may throw `error`. Aborts if the error's message has several lines.
template <class Call>
void unless_refused(Call call) {
  try {
    call();
  } catch (const lazyprune::error& fault) {
    if (std::string_view(fault.what()).find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace lazyprune_test
