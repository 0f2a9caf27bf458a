// SPDX-License-Identifier: MIT
// Prunes only in the prefill. Decode steps prune nothing.
#pragma once

#include <utility>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// For example `prompt_only{stages{{9, 0.5}}}`. `prompt_only` sees the scores if the inner schedule does.
template <class Schedule>
struct prompt_only {
  static_assert(any_kind_of_schedule<Schedule>,
                "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                "std::span<const float> scores) const");

  Schedule prefill;

  constexpr explicit prompt_only(Schedule schedule) : prefill(std::move(schedule)) {}

  std::size_t keep(const layer_context& context) const requires layer_schedule<Schedule> {
    return context.step == phase::prefill ? prefill.keep(context) : everything;
  }

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const requires adaptive_schedule<Schedule> {
    return context.step == phase::prefill ? prefill.keep(context, scores) : everything;
  }

  layer_id first(phase step, layer_id layers) const { return step == phase::prefill ? first_pruning(prefill, step, layers) : layers; }

  bool prunes_after(layer_id done, phase step, layer_id layers) const {
    return step == phase::prefill && could_prune(prefill, done, step, layers);
  }

  bool sees_scores() const requires chosen_schedule<Schedule> { return prefill.sees_scores(); }

  friend bool operator==(const prompt_only&, const prompt_only&) = default;
};

}  // namespace v0
}  // namespace lazyprune
