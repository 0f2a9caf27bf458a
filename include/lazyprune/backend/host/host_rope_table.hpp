// SPDX-License-Identifier: MIT
// The cosines and sines of rotary position embeddings in host memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <lazyprune/core/types.hpp>

namespace lazyprune {
inline namespace v0 {

/// scale * cos(p * frequency) and scale * sin(p * frequency) for all positions p, computed in double. Pairs of frequency 0 are not scaled.
template <class T>
class host_rope_table {
 public:
  host_rope_table(std::span<const double> frequencies, double scale, std::size_t positions)
      : half_(frequencies.size()), values_(2 * half_ * positions) {
    for (std::size_t p = 0; p < positions; ++p)
      for (std::size_t i = 0; i < half_; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i], size = frequencies[i] == 0 ? 1.0 : scale;
        values_[2 * p * half_ + i] = static_cast<T>(size * std::cos(angle));
        values_[(2 * p + 1) * half_ + i] = static_cast<T>(size * std::sin(angle));
      }
  }

  std::size_t half() const { return half_; }  // head_dim / 2
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  const T* cosines(position p) const { return values_.data() + 2 * p * half_; }      // (half)
  const T* sines(position p) const { return values_.data() + (2 * p + 1) * half_; }  // (half)

 private:
  std::size_t half_;
  std::vector<T> values_;  // (positions, 2, half)
};

}  // namespace v0
}  // namespace lazyprune
