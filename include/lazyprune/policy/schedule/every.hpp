// SPDX-License-Identifier: MIT
// Prunes at regular intervals of layers, each time to the same share of the active tokens.
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>

namespace lazyprune {
inline namespace v0 {

/// After every `n` layers, keeps `share` of the active tokens. Never prunes before the first layer.
struct every {
  static constexpr std::string_view name = "every";
  positive n = 1;
  fraction share = 1;

  std::size_t keep(const layer_context& context) const {
    return context.done == 0 || context.done % n != 0 ? everything : share_of(share, context.active);
  }

  layer_id first(phase, layer_id layers) const { return static_cast<layer_id>(std::min<std::size_t>(n, layers)); }

  bool prunes_after(layer_id done, phase, layer_id) const { return done != 0 && done % n == 0; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(required("n"), n, layer_range{.least = 1});
    visit(required("share"), share);
  }

  friend bool operator==(const every&, const every&) = default;
};

static_assert(layer_schedule<every>);

}  // namespace v0
}  // namespace lazyprune
