// SPDX-License-Identifier: MIT
// A selector that was chosen at run time.
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

struct selector_calls {
  std::size_t (*select)(const void* selector, const candidates& c, std::span<std::uint32_t> kept);
  std::optional<kept_count> (*count)(const void* selector, const candidates& c);

  template <class Selector>
  static constexpr selector_calls of() {
    static_assert(token_selector<Selector>, "Selector needs: std::size_t select(const candidates&, std::span<std::uint32_t> kept) const");
    return {.select = [](const void* selector, const candidates& c, std::span<std::uint32_t> kept) -> std::size_t {
              return static_cast<const Selector*>(selector)->select(c, kept);
            },
            .count = [](const void* selector, const candidates& c) { return count_of(*static_cast<const Selector*>(selector), c); }};
  }
};

}  // namespace detail

/// `any_selector chosen = sharp ? any_selector(top_p{0.9}) : top_k{};` Each selection makes one indirect call to the selector inside.
class any_selector : public detail::erased_part<detail::selector_calls> {
 public:
  using erased_part::erased_part;

  std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return calls().select(policy(), c, kept); }

  /// The count of the selector inside; nullopt if the number depends on the scores, or if that selector does not say.
  std::optional<kept_count> count(const candidates& c) const { return calls().count(policy(), c); }
};

static_assert(token_selector<any_selector>);

}  // namespace v0
}  // namespace lazyprune
