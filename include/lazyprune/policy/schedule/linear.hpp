// SPDX-License-Identifier: MIT
// Prunes a little at every layer: the number of tokens falls along a line.
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/schedule/detail/fall.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keeps all tokens while no more than `from` layers are done; then ceil(s * known - 1e-9) of them, at most the active ones, where s falls
/// in equal steps from 1, with `from` layers done, to `share`, with all layers done but the last. `known` counts pruned tokens too, so s is
/// the share of the sequence that the next layer sees. Never prunes where `from` >= layers - 1.
struct linear {
  static constexpr std::string_view name = "linear";
  layer_id from = 0;
  fraction share = 1;

  std::size_t keep(const layer_context& context) const { return detail::falling_to(share, detail::way_down(context, from), context); }

  layer_id first(phase, layer_id layers) const { return from < layers ? from + 1 : layers; }

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("from", from, layer_range{.least = 0, .before_last = true});
    visit(required("share"), share);
  }

  friend bool operator==(const linear&, const linear&) = default;
};

static_assert(layer_schedule<linear>);

}  // namespace v0
}  // namespace lazyprune
