// SPDX-License-Identifier: MIT
// Positions as text, in ranges: "0-45,47".
#pragma once

#include <span>
#include <string>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns ascending positions as text, in ranges that are as long as possible. After `limit` ranges, "..." stands for the rest.
inline std::string position_ranges(std::span<const position> positions, std::size_t limit = everything) {
  std::string text;
  for (std::size_t i = 0, ranges = 0; i < positions.size(); ++ranges) {
    if (ranges > 0) text += ',';
    if (ranges == limit) return text + "...";
    std::size_t last = i;
    while (last + 1 < positions.size() && positions[last + 1] == positions[last] + 1) ++last;
    text += std::to_string(positions[i]);
    if (last > i) text.append("-").append(std::to_string(positions[last]));
    i = last + 1;
  }
  return text;
}

}  // namespace v0
}  // namespace lazyprune
