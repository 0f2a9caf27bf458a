// SPDX-License-Identifier: MIT
// An aux store that was chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/erased_part.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

struct store_calls {
  std::size_t (*admit)(const void* store, const stored_rows& rows, std::span<std::uint32_t> kept);
  bool (*for_good)(const void* store);
  std::optional<bool> (*admits_all)(const void* store);

  template <class Store>
  static constexpr store_calls of() {
    static_assert(aux_store<Store>, "Store needs: std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const");
    return {.admit = [](const void* store, const stored_rows& rows, std::span<std::uint32_t> kept) -> std::size_t {
              return static_cast<const Store*>(store)->admit(rows, kept);
            },
            .for_good = [](const void* store) { return drops_for_good(*static_cast<const Store*>(store)); },
            .admits_all = [](const void* store) { return lazyprune::admits_all(*static_cast<const Store*>(store)); }};
  }
};

}  // namespace detail

/// `any_store chosen = rows > 0 ? any_store(bounded{rows}) : none{};` Each layer at which rows are dropped makes one indirect call to the
/// store inside.
class any_store : public detail::erased_part<detail::store_calls> {
 public:
  using erased_part::erased_part;

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return calls().admit(policy(), rows, kept); }

  /// Returns whether dropped tokens are missing from every later plan.
  bool for_good() const { return calls().for_good(policy()); }

  /// true if the store inside admits every row, false if it admits only rows that must stay; nullopt if this depends on the rows.
  std::optional<bool> admits_all() const { return calls().admits_all(policy()); }
};

static_assert(aux_store<any_store>);

}  // namespace v0
}  // namespace lazyprune
