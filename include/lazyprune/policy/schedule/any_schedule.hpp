// SPDX-License-Identifier: MIT
// A schedule that was chosen at run time. It may or may not decide by the scores.
#pragma once

#include <cassert>
#include <cstddef>
#include <span>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/erased_part.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

struct schedule_calls {
  bool (*sees_scores)(const void* schedule);
  std::size_t (*keep)(const void* schedule, const layer_context& context, std::span<const float> scores);
  layer_id (*first)(const void* schedule, phase step, layer_id layers);
  bool (*prunes_after)(const void* schedule, layer_id done, phase step, layer_id layers);

  template <class Schedule>
  static constexpr schedule_calls of() {
    static_assert(any_kind_of_schedule<Schedule>,
                  "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                  "std::span<const float> scores) const");
    static_assert(!ambiguous_schedule<Schedule>,
                  "Schedule has keep(context) and keep(context, scores): leave one of them out, or say which to call by sees_scores()");
    return {.sees_scores = [](const void* schedule) { return lazyprune::sees_scores(*static_cast<const Schedule*>(schedule)); },
            .keep = [](const void* schedule, const layer_context& context, std::span<const float> scores) -> std::size_t {
              return ask(*static_cast<const Schedule*>(schedule), context, scores);
            },
            .first = [](const void* schedule, phase step, layer_id layers) -> layer_id {
              return first_pruning(*static_cast<const Schedule*>(schedule), step, layers);
            },
            .prunes_after = [](const void* schedule, layer_id done, phase step,
                               layer_id layers) { return could_prune(*static_cast<const Schedule*>(schedule), done, step, layers); }};
  }
};

}  // namespace detail

/// `any_schedule chosen = flat ? any_schedule(adaptive{}) : stages{{9, 0.5}};` `any_schedule` sees the scores only if the inner schedule
/// does.
class any_schedule : public detail::erased_part<detail::schedule_calls> {
 public:
  using erased_part::erased_part;

  bool sees_scores() const { return calls().sees_scores(policy()); }

  /// The answer of a schedule that does not see the scores.
  std::size_t keep(const layer_context& context) const {
    assert(!sees_scores());
    return calls().keep(policy(), context, {});
  }

  /// The shape of `scores` is (active).
  std::size_t keep(const layer_context& context, std::span<const float> scores) const { return calls().keep(policy(), context, scores); }

  /// The smallest number of done layers at which the inner schedule could prune; 0 if the inner schedule does not say.
  layer_id first(phase step, layer_id layers) const { return calls().first(policy(), step, layers); }

  /// Returns whether the inner schedule could prune by scores after `done` layers. If it does not say, it could prune after any number of
  /// layers from `first` on.
  bool prunes_after(layer_id done, phase step, layer_id layers) const { return calls().prunes_after(policy(), done, step, layers); }
};

static_assert(chosen_schedule<any_schedule>);

}  // namespace v0
}  // namespace lazyprune
