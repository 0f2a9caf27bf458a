// SPDX-License-Identifier: MIT
// The mean of what is known of several tasks.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include <lazyprune/eval/summary.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The mean over tasks of what is known of each, none where one is not known: each task weighs the same, whatever its samples. The tasks'
/// distances to the ends of their intervals are added as deviations of independent means are.
template <class Task, class Of>
std::optional<estimate> mean_over(const std::vector<Task>& tasks, Of of) {
  double mean = 0, below = 0, above = 0;
  for (const Task& task : tasks) {
    const std::optional<estimate> e = of(task);
    if (!e) return std::nullopt;
    mean += e->mean;
    below = std::hypot(below, e->mean - e->ci95.low);
    above = std::hypot(above, e->ci95.high - e->mean);
  }
  const auto n = static_cast<double>(tasks.size());
  return estimate{mean / n, {(mean - below) / n, (mean + above) / n}};
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
