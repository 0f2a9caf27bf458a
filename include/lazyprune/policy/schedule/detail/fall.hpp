// SPDX-License-Identifier: MIT
// What linear and cosine share: a number of tokens that falls from layer to layer.
#pragma once

#include <algorithm>

#include <lazyprune/core/types.hpp>
#include <lazyprune/policy/arguments.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The part of the way from `from` layers done to layers - 1 of them that is behind us: 0 up to `from`, 1 before the last layer.
inline double way_down(const layer_context& context, layer_id from) {
  if (context.done <= from) return 0.0;
  return static_cast<double>(context.done - from) / static_cast<double>(context.layers - 1 - from);
}

/// Keeps `share` of the known tokens at the end of the fall (fallen = 1), and all active ones at its start (fallen = 0).
inline std::size_t falling_to(double share, double fallen, const layer_context& context) {
  if (fallen == 0.0) return everything;
  return std::min(context.active, share_of(1.0 - fallen * (1.0 - share), context.known));
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
