// SPDX-License-Identifier: MIT
// Norm weights and biases in host memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {

/// Vectors of weights, joined into one vector of type T.
template <class T>
class host_parameters {
 public:
  /// Throws `error` unless the parts are vectors.
  explicit host_parameters(std::span<const tensor> parts) {
    for (const tensor& part : parts) {
      if (part.rows != 1) throw error("", "parameters", "a vector", std::to_string(part.rows) + " rows");
      const std::size_t at = values_.size();
      values_.resize(at + part.columns);
      widen(part, 0, part.columns, values_.data() + at);
    }
  }

  std::size_t size() const { return values_.size(); }
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  const T* data() const { return values_.data(); }
  T operator[](std::size_t i) const { return values_[i]; }

 private:
  std::vector<T> values_;
};

}  // namespace v0
}  // namespace lazyprune
