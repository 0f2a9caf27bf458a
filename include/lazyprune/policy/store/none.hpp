// SPDX-License-Identifier: MIT
// No Aux Cache: a pruned token is lost, even one that was dropped before layer 0. Pruning is then static (paper, section 4).
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>

namespace lazyprune {
inline namespace v0 {

/// Admits only rows that are about to be read. A session with this store never has such rows, because it stores nothing. A dropped token
/// still takes part in the layers that have its keys and values. With `for_good` the token is missing from every later plan, so its keys
/// and values can be freed.
struct none {
  static constexpr std::string_view name = "none";
  bool for_good = false;

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return detail::best(rows.scores, 0, kept); }

  bool admits_all() const { return false; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(named_where_set("for_good"), for_good);
  }

  friend bool operator==(const none&, const none&) = default;
};

static_assert(aux_store<none>);

}  // namespace v0
}  // namespace lazyprune
