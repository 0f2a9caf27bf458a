// SPDX-License-Identifier: MIT
// A schedule that was chosen at run time, with or without scores.
#pragma once

#include <cassert>
#include <concepts>
#include <memory>
#include <utility>

#include <lazyprune/core/concepts.hpp>
#include <lazyprune/policy/detail/held_policy.hpp>

namespace lazyprune {
inline namespace v0 {

/// `any_schedule chosen = flat ? any_schedule(adaptive{}) : stages{{9, 0.5}};` Asks for evidence only where the schedule in it does.
class any_schedule {
  struct base : detail::policy_interface<base> {
    virtual bool sees_scores() const = 0;
    virtual std::size_t keep(const layer_context& context, std::span<const float> scores) const = 0;
    virtual layer_id first(phase step, layer_id layers) const = 0;
  };
  template <class Schedule>
  struct holder final : detail::policy_holder<base, holder<Schedule>, Schedule> {
    using detail::policy_holder<base, holder, Schedule>::policy_holder;
    bool sees_scores() const override { return lazyprune::sees_scores(this->policy); }
    std::size_t keep(const layer_context& context, std::span<const float> scores) const override {
      return ask(this->policy, context, scores);
    }
    layer_id first(phase step, layer_id layers) const override { return first_pruning(this->policy, step, layers); }
  };

 public:
  template <class Schedule>
    requires(!std::same_as<Schedule, any_schedule>)
  any_schedule(Schedule chosen) : held_(std::make_unique<holder<Schedule>>(std::move(chosen))) {
    static_assert(any_kind_of_schedule<Schedule>,
                  "Schedule needs: std::size_t keep(const layer_context&) const, or std::size_t keep(const layer_context&, "
                  "std::span<const float> scores) const");
  }

  bool sees_scores() const { return (*held_).sees_scores(); }

  /// Asks a schedule that does not see the scores.
  std::size_t keep(const layer_context& context) const {
    assert(!sees_scores());
    return (*held_).keep(context, {});
  }

  /// scores (active)
  std::size_t keep(const layer_context& context, std::span<const float> scores) const { return (*held_).keep(context, scores); }

  /// 0 where the schedule in it does not say.
  layer_id first(phase step, layer_id layers) const { return (*held_).first(step, layers); }

  /// The schedule in it, null where it is of another type.
  template <class Schedule>
  const Schedule* target() const noexcept {
    return held_.template target<Schedule>();
  }

  friend bool operator==(const any_schedule&, const any_schedule&) = default;

 private:
  detail::held_policy<base> held_;
};

static_assert(chosen_schedule<any_schedule>);

}  // namespace v0
}  // namespace lazyprune
