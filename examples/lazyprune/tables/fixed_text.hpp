// SPDX-License-Identifier: MIT
// Numbers as tables and pages show them.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// A number with so many digits after the point; a dash for what is no number.
inline std::string fixed_text(double value, int digits) {
  std::array<char, 352> text;  // the largest double has 309 digits before the point
  if (!std::isfinite(value)) return "–";
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits).ptr};
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
