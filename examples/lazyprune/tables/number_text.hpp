// SPDX-License-Identifier: MIT
// Numbers as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace lazyprune {
namespace program {

/// Writes so many digits after the point; a dash for what is no number.
std::string fixed(double value, int digits);

/// Writes three digits that mean something: "0.123", "12.3", "1234".
std::string three_digits(double value);

/// Writes it in the unit that suits: "12.3 ms", "1.50 KiB".
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

/// "12.5 %"
std::string percent_text(double share);

}  // namespace program
}  // namespace lazyprune
