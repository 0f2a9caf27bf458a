// SPDX-License-Identifier: MIT
// An Aux Cache of limited size. The pruned tokens that scored highest can come back; the others are lost.
#pragma once

#include <limits>
#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/detail/order.hpp>
#include <lazyprune/policy/store/keep_all.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keeps the `rows` rows that had the highest scores when they were dropped, and the later positions among equal scores. It keeps more rows
/// only if more are about to be read. Embeddings take no memory, so all of them are admitted.
struct bounded {
  static constexpr std::string_view name = "bounded";
  std::size_t rows = std::numeric_limits<std::size_t>::max();

  std::size_t admit(const stored_rows& all, std::span<std::uint32_t> kept) const {
    return all.embeddings ? keep_all{}.admit(all, kept) : detail::best(all.scores, rows, kept);
  }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("rows"), rows);
  }

  friend bool operator==(const bounded&, const bounded&) = default;
};

static_assert(aux_store<bounded>);

}  // namespace v0
}  // namespace lazyprune
