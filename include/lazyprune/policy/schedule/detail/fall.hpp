// SPDX-License-Identifier: MIT
// The common arithmetic of linear and cosine: a number of tokens that falls from layer to layer.
#pragma once

#include <algorithm>

#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/policy/arguments.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The progress of the fall, from 0 to 1. It is 0 while at most `from` layers are done, and 1 when layers - 1 layers are done.
inline double way_down(const layer_context& context, layer_id from) {
  if (context.done <= from) return 0.0;
  return static_cast<double>(context.done - from) / static_cast<double>(context.layers - 1 - from);
}

/// Returns the number of tokens to keep: all active tokens at the start of the fall (fallen = 0), and `share` of the known tokens at its
/// end (fallen = 1).
inline std::size_t falling_to(double share, double fallen, const layer_context& context) {
  if (fallen == 0.0) return everything;
  return std::min(context.active, share_of(1.0 - fallen * (1.0 - share), context.known));
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
