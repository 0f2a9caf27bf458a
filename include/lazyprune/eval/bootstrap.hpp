// SPDX-License-Identifier: MIT
// 95 % confidence intervals by the percentile bootstrap (Efron 1979). Every run gives the same intervals.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lazyprune/core/mix.hpp>

namespace lazyprune {
inline namespace v0 {

struct interval {
  double low, high;
  friend bool operator==(const interval&, const interval&) = default;
};

struct bootstrap {
  std::size_t resamples = 10000;
  std::uint64_t seed = 1;

  /// Returns the interval of a statistic of `size` samples. Each of the `resamples` resamples draws `size` indices with replacement, and
  /// `statistic(indices)` is computed from them. The interval reaches from the 2.5th to the 97.5th percentile of the results. Percentiles
  /// are interpolated linearly, as in numpy.percentile. Draw k of resample r is the upper half of the 128-bit product of `size` and
  /// mix(seed, r * size + k).
  template <class Statistic>
  interval operator()(std::size_t size, Statistic statistic) const {
    std::vector<std::size_t> drawn(size);
    std::vector<double> values(resamples);
    std::uint64_t n = 0;
    for (double& value : values) {
      for (std::size_t& index : drawn) index = below(size, mix(seed, n++));
      value = statistic(std::span<const std::size_t>(drawn));
    }
    std::ranges::sort(values);
    return {percentile(values, 0.025), percentile(values, 0.975)};
  }

  /// Returns the interval of the samples' mean. It does not depend on the order of the samples: the draws are of the sorted samples.
  interval operator()(std::span<const double> samples) const {
    std::vector<double> sorted(samples.begin(), samples.end());
    std::ranges::sort(sorted);
    return (*this)(samples.size(), [&](std::span<const std::size_t> drawn) {
      double sum = 0;
      for (const std::size_t i : drawn) sum += sorted[i];
      return sum / static_cast<double>(drawn.size());
    });
  }

  friend bool operator==(const bootstrap&, const bootstrap&) = default;

 private:
  /// Returns floor(size * bits / 2^64), for sizes below 2^32.
  static std::size_t below(std::size_t size, std::uint64_t bits) {
    const std::uint64_t high = (bits >> 32) * size, low = (bits & 0xffff'ffffu) * size;
    return static_cast<std::size_t>((high + (low >> 32)) >> 32);
  }
  static double percentile(const std::vector<double>& sorted, double share) {
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto before = static_cast<std::size_t>(at);
    const std::size_t after = std::min(before + 1, sorted.size() - 1);
    return sorted[before] + (at - static_cast<double>(before)) * (sorted[after] - sorted[before]);
  }
};

}  // namespace v0
}  // namespace lazyprune
