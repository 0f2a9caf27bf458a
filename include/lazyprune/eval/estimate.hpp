// SPDX-License-Identifier: MIT
// Means of samples, ratios of sums, and means over tasks, each with its confidence interval. The order of the samples changes no bit: the
// parts of a run, put together in any order, have the estimates of the whole run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lazyprune/eval/bootstrap.hpp>

namespace lazyprune {
inline namespace v0 {

/// A mean and its 95 % interval.
struct estimate {
  double mean;
  interval ci95;
  friend bool operator==(const estimate&, const estimate&) = default;
};

/// Returns the mean of the values and its interval. There must be at least one value.
inline estimate estimate_of(std::span<const double> values, const bootstrap& draws = {}) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return {std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size()), draws(sorted)};
}

/// Returns the sum of `upper` over the sum of `lower`. Entry i of each list belongs to sample i, so the bootstrap draws the two entries
/// together.
inline estimate ratio_of(std::span<const double> upper, std::span<const double> lower, const bootstrap& draws = {}) {
  std::vector<std::pair<double, double>> sorted;
  for (std::size_t i = 0; i < upper.size(); ++i) sorted.emplace_back(upper[i], lower[i]);
  std::ranges::sort(sorted);
  const auto ratio = [&](std::span<const std::size_t> drawn) {
    double above = 0, below = 0;
    for (const std::size_t i : drawn) {
      above += sorted[i].first;
      below += sorted[i].second;
    }
    return above / below;
  };
  std::vector<std::size_t> all(upper.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return {ratio(all), draws(upper.size(), ratio)};
}

/// Returns the mean over tasks. `of(task)` returns an optional<estimate>. The result is nullopt if `of` returns nullopt for at least one
/// task. Each task has the same weight, whatever its number of samples. The distance from the result to each end of its interval is
/// sqrt(sum over tasks of distance^2) / tasks. The standard deviations of independent means combine in this way.
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

}  // namespace v0
}  // namespace lazyprune
