// SPDX-License-Identifier: MIT
// Formats text for a terminal: columns, bars, and messages of one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// Makes one line of the text: control bytes become \xHH.
std::string one_line(std::string_view text);

/// The number of characters of UTF-8 text.
std::size_t columns_of(std::string_view text);

/// Pads the text with spaces to at least `width` columns, aligned to the right or the left.
std::string right(std::string_view text, std::size_t width);
std::string left(std::string_view text, std::size_t width);

/// A bar of `share` times `width` columns, for a share from 0 to 1.
std::string bar(double share, std::size_t width);

}  // namespace program
}  // namespace lazyprune
