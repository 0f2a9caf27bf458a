// SPDX-License-Identifier: MIT
// No Aux Cache: a pruned token is lost, also one that was dropped before layer 0. Pruning is then static (paper, section 4).
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune {
inline namespace v0 {

/// Admits nothing but rows that are about to be read, and of those there are none where nothing is ever stored.
struct none {
  static constexpr std::string_view name = "none";

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return detail::best(rows.scores, 0, kept); }

  template <class Visitor>
  void describe(Visitor&) {}

  friend bool operator==(const none&, const none&) = default;
};

static_assert(aux_store<none>);

}  // namespace v0
}  // namespace lazyprune
