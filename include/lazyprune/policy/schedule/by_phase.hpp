// SPDX-License-Identifier: MIT
// Uses one schedule for the prompt and another for generated tokens.
#pragma once

#include <utility>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// For example `by_phase{stages{{9, 0.5}}, every{.n = 8, .share = 0.7}}`. `by_phase` sees the scores if at least one of the two schedules
/// does.
template <class Prefill, class Decode>
struct by_phase {
  static_assert(any_kind_of_schedule<Prefill> && any_kind_of_schedule<Decode>,
                "Schedules need: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                "std::span<const float> scores) const");

  Prefill prefill;
  Decode decode;

  constexpr by_phase(Prefill a, Decode b) : prefill(std::move(a)), decode(std::move(b)) {}

  std::size_t keep(const layer_context& context) const requires(layer_schedule<Prefill>&& layer_schedule<Decode>) {
    return context.step == phase::prefill ? prefill.keep(context) : decode.keep(context);
  }

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const
      requires(adaptive_schedule<Prefill> || adaptive_schedule<Decode>) {
    return context.step == phase::prefill ? ask(prefill, context, scores) : ask(decode, context, scores);
  }

  layer_id first(phase step, layer_id layers) const {
    return step == phase::prefill ? first_pruning(prefill, step, layers) : first_pruning(decode, step, layers);
  }

  bool prunes_after(layer_id done, phase step, layer_id layers) const {
    return step == phase::prefill ? could_prune(prefill, done, step, layers) : could_prune(decode, done, step, layers);
  }

  bool sees_scores() const requires(chosen_schedule<Prefill> || chosen_schedule<Decode>) {
    return lazyprune::sees_scores(prefill) || lazyprune::sees_scores(decode);
  }

  friend bool operator==(const by_phase&, const by_phase&) = default;
};

}  // namespace v0
}  // namespace lazyprune
