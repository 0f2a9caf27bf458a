// SPDX-License-Identifier: MIT
// A selector that was chosen at run time.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/held_policy.hpp>

namespace lazyprune {
inline namespace v0 {

/// `any_selector chosen = sharp ? any_selector(top_p{0.9}) : top_k{};` One virtual call a selection.
class any_selector {
  struct base : detail::policy_interface<base> {
    virtual std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const = 0;
  };
  template <class Selector>
  struct holder final : detail::policy_holder<base, holder<Selector>, Selector> {
    using detail::policy_holder<base, holder, Selector>::policy_holder;
    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const override { return this->policy.select(c, kept); }
  };

 public:
  template <class Selector>
    requires(!std::same_as<Selector, any_selector>)
  any_selector(Selector chosen) : held_(std::make_unique<holder<Selector>>(std::move(chosen))) {
    static_assert(token_selector<Selector>, "Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const");
  }

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return (*held_).select(c, kept); }

  /// The selector in it, null where it is of another type.
  template <class Selector>
  const Selector* target() const noexcept {
    return held_.template target<Selector>();
  }

  friend bool operator==(const any_selector&, const any_selector&) = default;

 private:
  detail::held_policy<base> held_;
};

static_assert(token_selector<any_selector>);

}  // namespace v0
}  // namespace lazyprune
