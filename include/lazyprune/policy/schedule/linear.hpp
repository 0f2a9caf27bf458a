// SPDX-License-Identifier: MIT
// Prunes a little at every layer. The number of tokens falls linearly.
#pragma once

#include <string_view>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/arguments.hpp>
#include <lazyprune/policy/schedule/detail/fall.hpp>

namespace lazyprune {
inline namespace v0 {

/// Keeps all tokens while at most `from` layers are done. After more layers, keeps a part s of the known tokens, pruned ones included. The
/// part s falls in equal steps, from 1 after `from` layers to `share` after all layers but the last. Of `known` tokens,
/// ceil(s * known - 1e-9) are kept, but at least 1 and at most the active ones. Never prunes if `from` >= layers - 1.
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
