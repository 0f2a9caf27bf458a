// SPDX-License-Identifier: MIT
// A tensor in a file, in any format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// One tensor of a file. `data` is little-endian, row-major and perhaps not aligned.
struct stored_tensor {
  std::string name;
  std::string_view type;             // as the format spells it: "F32", "BF16", "Q4_K", ...
  std::vector<std::uint64_t> shape;  // rows before columns; empty for a scalar
  std::span<const std::byte> data;
};

namespace detail {

inline std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t n : shape) text.append(text.size() > 1 ? ", " : "").append(std::to_string(n));
  return text + "]";
}

}  // namespace detail

}  // namespace v0
}  // namespace lazyprune
