// SPDX-License-Identifier: MIT
// Prunes at every layer, and most in the middle layers. The number of tokens falls like half a period of a cosine.
#pragma once

#include <cmath>
#include <numbers>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/core/precise_math.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/schedule/detail/fall.hpp>

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace lazyprune {
inline namespace v0 {

/// Like `linear`, but the part s of the known tokens that it keeps is share + (1 - share) * (1 + cos(pi * t)) / 2. The variable t rises
/// linearly, from 0 after `from` layers to 1 after layers - 1 layers.
struct cosine {
  static constexpr std::string_view name = "cosine";
  layer_id from = 0;
  fraction share = 1;

  std::size_t keep(const layer_context& context) const {
    return detail::falling_to(share, (1.0 - std::cos(std::numbers::pi * detail::way_down(context, from))) / 2.0, context);
  }

  layer_id first(phase, layer_id layers) const { return from < layers ? from + 1 : layers; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("from", from, layer_range{.least = 0, .before_last = true});
    visit(required("share"), share);
  }

  friend bool operator==(const cosine&, const cosine&) = default;
};

static_assert(layer_schedule<cosine>);

}  // namespace v0
}  // namespace lazyprune
LAZYPRUNE_PRECISE_MATH_END
