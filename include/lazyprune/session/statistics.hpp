// SPDX-License-Identifier: MIT
// The cost of a sequence so far, counted in rows. One row is one token computed by one layer.
#pragma once

#include <cstddef>
#include <vector>

namespace lazyprune {
inline namespace v0 {

struct statistics {
  std::size_t steps = 0;
  std::size_t rows = 0;                         // computed rows, summed over layers and steps
  std::size_t dense_rows = 0;                   // rows that the dense model computes in the same steps
  std::size_t revived = 0;                      // rows that came back from the aux store
  std::vector<std::size_t> prefill_rows;        // (layers), computed in the prefill steps
  std::vector<std::size_t> prefill_dense_rows;  // (layers), computed by the dense model in the same steps
  friend bool operator==(const statistics&, const statistics&) = default;
};

}  // namespace v0
}  // namespace lazyprune
