// SPDX-License-Identifier: MIT
// Formats numbers for people.
#pragma once

#include <cstddef>
#include <string>

namespace lazyprune {
namespace program {

/// Writes the value with `digits` digits after the point, or a dash if it is infinite or NaN.
std::string fixed(double value, int digits);

/// Writes three digits, not counting a single 0 before the point. Digits before the point are never cut: "0.123", "12.3", "1234".
std::string three_digits(double value);

/// Writes the value in a unit that suits its size: "12.3 ms", "1.50 KiB".
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

/// "12.5 %"
std::string percent_text(double share);

}  // namespace program
}  // namespace lazyprune
