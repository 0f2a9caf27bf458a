// SPDX-License-Identifier: MIT
// An aux store that was chosen at run time.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/held_policy.hpp>

namespace lazyprune {
inline namespace v0 {

/// `any_store chosen = rows > 0 ? any_store(bounded{rows}) : none{};` One virtual call a layer at which rows are dropped.
class any_store {
  struct base : detail::policy_interface<base> {
    virtual std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const = 0;
    virtual bool for_good() const = 0;
  };
  template <class Store>
  struct holder final : detail::policy_holder<base, holder<Store>, Store> {
    using detail::policy_holder<base, holder, Store>::policy_holder;
    std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const override { return this->policy.admit(rows, kept); }
    bool for_good() const override { return drops_for_good(this->policy); }
  };

 public:
  template <class Store>
    requires(!std::same_as<Store, any_store>)
  any_store(Store chosen) : held_(std::make_unique<holder<Store>>(std::move(chosen))) {
    static_assert(aux_store<Store>, "Store needs: std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const");
  }

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return (*held_).admit(rows, kept); }

  /// Whether tokens that are dropped leave every later plan.
  bool for_good() const { return (*held_).for_good(); }

  /// The store in it, null where it is of another type.
  template <class Store>
  const Store* target() const noexcept {
    return held_.template target<Store>();
  }

  friend bool operator==(const any_store&, const any_store&) = default;

 private:
  detail::held_policy<base> held_;
};

static_assert(aux_store<any_store>);

}  // namespace v0
}  // namespace lazyprune
