// SPDX-License-Identifier: MIT
// The paper's selector (section 3.2, by percentile): keeps the tokens with the highest scores, and the later positions among equal scores.
#pragma once

#include <optional>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keeps `keep` tokens. If more are required, it keeps the required tokens and no others. Takes time linear in the candidates, on average.
struct top_k {
  static constexpr std::string_view name = "top_k";

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return detail::best(c.scores, c.keep, kept); }

  std::optional<kept_count> count(const candidates& c) const { return kept_count{.required = detail::required_of(c.scores)}; }

  template <class Visitor>
  void describe(Visitor&) {}

  friend bool operator==(const top_k&, const top_k&) = default;
};

static_assert(token_selector<top_k>);

}  // namespace v0
}  // namespace lazyprune
