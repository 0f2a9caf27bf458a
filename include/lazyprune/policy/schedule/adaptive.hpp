// SPDX-License-Identifier: MIT
// Lets the scores decide how many tokens go on: few if the attention is sharp, many if it is flat.
#pragma once

#include <algorithm>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/mass.hpp>

namespace lazyprune {
inline namespace v0 {

/// Prunes after `from`, `from` + `every`, `from` + 2 * `every`, ... layers. Keeps the fewest tokens whose scores hold `mass` of the sum,
/// but at least `least` of the active tokens. Only positive scores have mass. A token with a score of +inf counts as kept and has no mass.
/// Sums are exact to 1e-9 of the total. The schedule decides by the scores, so the engine is asked for evidence after every layer but the
/// last.
struct adaptive {
  static constexpr std::string_view name = "adaptive";
  layer_id from = 1;
  positive every = 1;
  fraction mass = 0.9;
  fraction least = 0.1;

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const {
    if (context.done < from || (context.done - from) % every != 0) return everything;
    return std::max(detail::fewest_holding(scores, mass, 0.0), share_of(least, context.active));
  }

  layer_id first(phase, layer_id layers) const { return std::min(from, layers); }

  bool prunes_after(layer_id done, phase, layer_id) const { return done >= from && (done - from) % every == 0; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("from", from, layer_range{});
    visit("every", every);
    visit("mass", mass);
    visit("least", least);
  }

  friend bool operator==(const adaptive&, const adaptive&) = default;
};

static_assert(adaptive_schedule<adaptive>);

}  // namespace v0
}  // namespace lazyprune
