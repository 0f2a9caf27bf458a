// SPDX-License-Identifier: MIT
// Numbers as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace lazyprune {
namespace program {

/// So many digits after the point; a dash for what is no number.
std::string fixed(double value, int digits);

/// Three digits that mean something: "0.123", "12.3", "1234".
std::string three_digits(double value);

/// In the unit that suits: "12.3 ms".
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

/// "12.5 %"
std::string percent_text(double share);

}  // namespace program
}  // namespace lazyprune
