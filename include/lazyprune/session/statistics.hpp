// SPDX-License-Identifier: MIT
// The cost of a sequence so far, counted in rows. One row is one token computed by one layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
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

  /// The cost since an earlier time of the same sequence.
  friend statistics operator-(statistics now, const statistics& before) {
    now.steps -= before.steps;
    now.rows -= before.rows;
    now.dense_rows -= before.dense_rows;
    now.revived -= before.revived;
    std::ranges::transform(now.prefill_rows, before.prefill_rows, now.prefill_rows.begin(), std::minus());
    std::ranges::transform(now.prefill_dense_rows, before.prefill_dense_rows, now.prefill_dense_rows.begin(), std::minus());
    return now;
  }
};

}  // namespace v0
}  // namespace lazyprune
