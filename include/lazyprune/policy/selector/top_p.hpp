// SPDX-License-Identifier: MIT
// Keeps the fewest tokens that hold a share of the scores. These are few if the attention is sharp, and many if it is flat.
#pragma once

#include <algorithm>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/mass.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keeps the required tokens and then the best ones, until they hold `mass` of the total. The total is the sum of `required_mass` and all
/// positive scores. Keeps at most `keep` tokens, unless more are required. Among equal scores the later positions stay. The sums are exact
/// to 1e-9 of the total.
struct top_p {
  static constexpr std::string_view name = "top_p";
  fraction mass = 1;

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
    return detail::best(c.scores, std::min(c.keep, detail::fewest_holding(c.scores, mass, c.required_mass)), kept);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("mass"), mass);
  }

  friend bool operator==(const top_p&, const top_p&) = default;
};

static_assert(token_selector<top_p>);

}  // namespace v0
}  // namespace lazyprune
