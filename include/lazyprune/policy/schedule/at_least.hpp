// SPDX-License-Identifier: MIT
// Prunes nothing while the sequence is short.
#pragma once

#include <utility>

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {

/// `at_least{stages{{9, 0.5}}, 512}` keeps everything until 512 tokens are known, pruned ones included. From then on the inner schedule
/// decides. `at_least` sees the scores if the inner schedule does.
template <class Schedule>
struct at_least {
  static_assert(any_kind_of_schedule<Schedule>,
                "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                "std::span<const float> scores) const");

  Schedule schedule;
  std::size_t tokens;

  constexpr at_least(Schedule inner, std::size_t known) : schedule(std::move(inner)), tokens(known) {}

  std::size_t keep(const layer_context& context) const requires layer_schedule<Schedule> {
    return context.known < tokens ? everything : schedule.keep(context);
  }

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const requires adaptive_schedule<Schedule> {
    return context.known < tokens ? everything : schedule.keep(context, scores);
  }

  layer_id first(phase step, layer_id layers) const { return first_pruning(schedule, step, layers); }

  bool prunes_after(layer_id done, phase step, layer_id layers) const { return could_prune(schedule, done, step, layers); }

  bool sees_scores() const requires chosen_schedule<Schedule> { return schedule.sees_scores(); }

  friend bool operator==(const at_least&, const at_least&) = default;
};

}  // namespace v0
}  // namespace lazyprune
