// SPDX-License-Identifier: MIT
// A policy chosen at run time among several of one kind: schedules, selectors or stores. Not scorers: theirs is a choice of evidence.
#pragma once

#include <concepts>
#include <utility>
#include <variant>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/schedule/detail/ask.hpp>

namespace lazyprune {
inline namespace v0 {

/// `one_of<top_k, top_p> selector = sharp ? one_of<top_k, top_p>(top_p{0.9}) : top_k{};` A schedule sees the scores if one of them does.
template <class... Policies>
class one_of {
  static constexpr bool schedules = (detail::any_schedule<Policies> && ...);
  static constexpr bool layer_schedules = (layer_schedule<Policies> && ...);
  static constexpr bool selectors = (token_selector<Policies> && ...);
  static constexpr bool stores = (aux_store<Policies> && ...);
  static_assert(sizeof...(Policies) > 0 && (schedules || selectors || stores),
                "one_of needs policies of one kind: all schedules (keep), all selectors (select) or all stores (admit)");

 public:
  template <class Policy>
    requires(std::same_as<Policy, Policies> || ...)
  one_of(Policy chosen) : chosen_(std::move(chosen)) {}

  std::size_t keep(const layer_context& context) const requires layer_schedules {
    return std::visit([&](const auto& schedule) -> std::size_t { return schedule.keep(context); }, chosen_);
  }

  /// scores (active)
  std::size_t keep(const layer_context& context, std::span<const float> scores) const requires(schedules && !layer_schedules) {
    return std::visit([&](const auto& schedule) -> std::size_t { return detail::ask(schedule, context, scores); }, chosen_);
  }

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const requires selectors {
    return std::visit([&](const auto& selector) -> std::size_t { return selector.select(c, kept); }, chosen_);
  }

  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const requires stores {
    return std::visit([&](const auto& store) -> std::size_t { return store.admit(rows, kept); }, chosen_);
  }

  friend bool operator==(const one_of&, const one_of&) = default;

 private:
  std::variant<Policies...> chosen_;
};

}  // namespace v0
}  // namespace lazyprune
