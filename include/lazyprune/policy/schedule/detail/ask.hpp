// SPDX-License-Identifier: MIT
// Decorators hold schedules of either kind, with and without scores.
#pragma once

#include <lazyprune/core/concepts.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

template <class S>
concept any_schedule = layer_schedule<S> || adaptive_schedule<S>;

/// scores (active)
template <any_schedule Schedule>
std::size_t ask(const Schedule& schedule, const layer_context& context, std::span<const float> scores) {
  if constexpr (layer_schedule<Schedule>)
    return schedule.keep(context);
  else
    return schedule.keep(context, scores);
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
