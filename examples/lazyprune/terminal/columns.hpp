// SPDX-License-Identifier: MIT
// Lines of text on a terminal: in columns, and one line whatever is in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lazyprune {
namespace program {

/// Makes one line of the text, whatever bytes the names and values in it have: control bytes become \xHH.
std::string one_line(std::string_view text);

/// Characters of UTF-8 text.
std::size_t columns_of(std::string_view text);

/// Fills the text up to at least `width` columns; it stands at their right or left end.
std::string right(std::string_view text, std::size_t width);
std::string left(std::string_view text, std::size_t width);

/// A bar of at most `width` columns, for a share of them.
std::string bar(double share, std::size_t width);

}  // namespace program
}  // namespace lazyprune
