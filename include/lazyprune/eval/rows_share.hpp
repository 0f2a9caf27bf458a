// SPDX-License-Identifier: MIT
// What a schedule costs before anything is run: the part of the dense prefill's rows that it computes.
#pragma once

#include <lazyprune/policy/schedule/stages.hpp>

namespace lazyprune {
inline namespace v0 {

/// The share of the dense model's prefill rows that a model of so many layers computes under these stages. Rows are tokens times layers; at
/// the last layer all tokens count, though most get keys and values there and no more. The share is that of a long prompt: with n tokens,
/// counts are rounded up, which adds less than 1 / n for each stage above a layer.
inline double rows_share(const stages& when, layer_id layers) {
  double active = 1, sum = 0;
  for (layer_id done = 0; done < layers; ++done) {
    for (const stage& s : when.list())
      if (s.after == done) active *= s.share;
    sum += active;
  }
  return sum / layers;
}

}  // namespace v0
}  // namespace lazyprune
