// SPDX-License-Identifier: MIT
// The paper's Aux Cache (section 3.3): every pruned token can come back.
#pragma once

#include <numeric>
#include <string_view>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

struct keep_all {
  static constexpr std::string_view name = "keep_all";

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const {
    const std::size_t n = rows.scores.size();
    std::iota(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(n), 0u);
    return n;
  }

  bool admits_all() const { return true; }

  template <class Visitor>
  void describe(Visitor&) {}

  friend bool operator==(const keep_all&, const keep_all&) = default;
};

static_assert(aux_store<keep_all>);

}  // namespace v0
}  // namespace lazyprune
