// SPDX-License-Identifier: MIT
// The numbers that policies are made of. They can only hold what makes sense, so that policies stay aggregates and a wrong number throws
// where it is written: `every{.n = 4, .share = 1.5}`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>

namespace lazyprune {
inline namespace v0 {

/// A share in (0, 1]; throws `error` for any other number. It has no == of its own: it compares as the double that it converts to.
class fraction {
 public:
  constexpr fraction(double value) : value_(value) {
    if (!(value > 0.0 && value <= 1.0)) report_error(error("", "", "a share in (0, 1]", text_of_number(value)));
  }
  constexpr operator double() const { return value_; }

 private:
  double value_;
};

/// A count of at least 1; throws `error` for 0. It compares as the number that it converts to.
class positive {
 public:
  constexpr positive(std::size_t value) : value_(value) {
    if (value == 0) report_error(error("", "", "a count of at least 1", "0"));
  }
  constexpr operator std::size_t() const { return value_; }

 private:
  std::size_t value_;
};

/// So many of n >= 1 tokens are `share` of them: ceil(share * n - 1e-9), at least 1, at most n. The small constant makes 0.1 of 30
/// tokens 3 of them, not the 4 of its rounding error.
inline std::size_t share_of(double share, std::size_t n) {
  const double count = std::ceil(share * static_cast<double>(n) - 1e-9);
  return static_cast<std::size_t>(std::clamp(count, 1.0, static_cast<double>(n)));
}

}  // namespace v0
}  // namespace lazyprune
