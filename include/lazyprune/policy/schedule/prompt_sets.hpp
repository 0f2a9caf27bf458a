// SPDX-License-Identifier: MIT
// Prunes the prompt. Each later step attends to the tokens that the prompt kept, and brings none back.
#pragma once

#include <utility>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// For example `prompt_sets{stages{{9, 0.5}}}`. A decode step computes its own tokens and nothing else: at each layer it attends to the
/// tokens that have keys there. So it costs no more than a dense step, unless the scorer remembers earlier steps: it then reads the
/// attention of each layer. The pruned tokens wait in the store until the next prompt, which is scored anew and may bring them back.
/// `prompt_sets` sees the scores if the inner schedule does.
template <class Schedule>
struct prompt_sets {
  static_assert(any_kind_of_schedule<Schedule>,
                "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                "std::span<const float> scores) const");

  Schedule prefill;

  constexpr explicit prompt_sets(Schedule schedule) : prefill(std::move(schedule)) {}

  std::size_t keep(const layer_context& context) const requires layer_schedule<Schedule> {
    return context.step == phase::prefill ? prefill.keep(context) : with_keys(context);
  }

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const requires adaptive_schedule<Schedule> {
    return context.step == phase::prefill ? prefill.keep(context, scores) : with_keys(context);
  }

  layer_id first(phase, layer_id layers) const { return first_pruning(prefill, phase::prefill, layers); }

  bool prunes_after(layer_id done, phase step, layer_id layers) const {
    return step == phase::prefill && could_prune(prefill, done, step, layers);
  }

  bool sees_scores() const requires chosen_schedule<Schedule> { return prefill.sees_scores(); }

  friend bool operator==(const prompt_sets&, const prompt_sets&) = default;

 private:
  std::size_t with_keys(const layer_context& context) const {
    return context.done < first(context.step, context.layers) ? everything : all_with_keys;
  }
};

}  // namespace v0
}  // namespace lazyprune
