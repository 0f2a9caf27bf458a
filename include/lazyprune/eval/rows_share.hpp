// SPDX-License-Identifier: MIT
// Computes the cost of a schedule without running a model: the share of the dense prefill's rows that the schedule leaves to compute.
#pragma once

#include <lazyprune/policy/schedule/stages.hpp>

namespace lazyprune {
inline namespace v0 {

/// Returns the share of the dense model's prefill rows that a model of `layers` layers computes with these stages. Rows are tokens times
/// layers. At the last layer all active tokens count, although most get only keys and values there. The share is exact in the limit of a
/// long prompt. In a prompt of n tokens, a session rounds the count of kept tokens up at each stage. This adds less than 1 / n to a layer's
/// share for each stage before that layer.
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
