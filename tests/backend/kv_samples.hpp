// SPDX-License-Identifier: MIT
// What each type of keys and values keeps of a number.
#pragma once

#include <lazyprune/backend/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace lazyprune_test {

/// Returns what a cache of this type keeps of rows (any, head_dim) of heads.
inline std::vector<float> kept_as(lazyprune::dtype type, std::vector<float> rows, std::size_t head_dim) {
  using namespace lazyprune;
  if (type == dtype::bf16)
    for (float& x : rows) x = float_of_bf16(bf16_of_float(x));
  if (type == dtype::f16)
    for (float& x : rows) x = float_of_f16(f16_of_float(x));
  if (type != dtype::q8_0) return rows;
  for (std::size_t row = 0; row < rows.size(); row += head_dim)
    for (std::size_t first = 0; first < head_dim; first += 32) {
      const std::span<float> block(rows.data() + row + first, std::min<std::size_t>(32, head_dim - first));
      float most = 0;
      for (const float x : block) most = std::max(most, std::abs(x));
      const float scale = float_of_f16(f16_of_float(most / 127)), inverse = 127 / most;
      for (float& x : block) x = most == 0 ? 0 : scale * std::nearbyint(x * inverse);
    }
  return rows;
}

}  // namespace lazyprune_test
