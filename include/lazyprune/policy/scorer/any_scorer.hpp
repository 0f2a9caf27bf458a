// SPDX-License-Identifier: MIT
// A scorer that was chosen at run time, whatever evidence it needs.
#pragma once

#include <cassert>
#include <concepts>
#include <span>
#include <variant>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/erased_part.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

struct scorer_calls {
  scorer_needs (*needs)(const void* scorer);
  std::span<const head_probe> (*probes)(const void* scorer, layer_id layer);
  void (*score)(void* scorer, const every_layer<evidence>& shown, std::span<float> out);

  template <class Scorer>
  static constexpr scorer_calls of() {
    static_assert(!ambiguous_scorer<Scorer>,
                  "Scorer takes several views: its score must take exactly one view type, not auto and not evidence of any kind");
    static_assert(importance_scorer<Scorer>, "Scorer needs: void score(const attention_view&, std::span<float>) const (or another view)");
    return {.needs = [](const void* scorer) { return needs_of(*static_cast<const Scorer*>(scorer)); },
            .probes = [](const void* scorer, layer_id layer) { return probes_of(*static_cast<const Scorer*>(scorer), layer); },
            .score = [](void* scorer, const every_layer<evidence>& shown,
                        std::span<float> out) { score_by(*static_cast<Scorer*>(scorer), shown, out); }};
  }

  template <class Scorer>
  static void score_by(Scorer& scorer, const every_layer<evidence>& shown, std::span<float> out) {
    if constexpr (chosen_scorer<Scorer>) {
      scorer.score(shown, out);
    } else {
      const auto* now = std::get_if<evidence_of<Scorer>>(&shown.now);
      assert(now && "the evidence is of the kind that is needed");
      if constexpr (std::same_as<view_of<Scorer>, evidence_of<Scorer>>)
        scorer.score(*now, out);
      else
        scorer.score(view_of<Scorer>{*now, shown.layer, shown.memory}, out);
    }
  }
};

}  // namespace detail

/// `any_scorer chosen = fused ? any_scorer(key_norm{}) : last_query_attention{};` The engine is asked for the evidence that this scorer
/// needs. Each layer makes one indirect call to this scorer.
class any_scorer : public detail::erased_part<detail::scorer_calls> {
 public:
  using erased_part::erased_part;

  scorer_needs needs() const { return calls().needs(policy()); }
  std::span<const head_probe> probes(layer_id layer) const { return calls().probes(policy(), layer); }

  /// `shown.now` must be of the kind that `needs()` names. `shown.memory` is empty unless the scorer needs every layer.
  void score(const every_layer<evidence>& shown, std::span<float> out) { calls().score(policy(), shown, out); }
};

static_assert(chosen_scorer<any_scorer>);

}  // namespace v0
}  // namespace lazyprune
