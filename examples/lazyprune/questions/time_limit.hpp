// SPDX-License-Identifier: MIT
// A time limit after which no new work begins.
#pragma once

#include <chrono>
#include <ratio>

namespace lazyprune {
namespace program {

class time_limit {
 public:
  /// The time starts now. If `minutes` is 0, there is no limit.
  explicit time_limit(double minutes = 0) : minutes_(minutes) {}

  bool over() const { return minutes_.count() > 0 && clock::now() - begun_ >= minutes_; }

 private:
  using clock = std::chrono::steady_clock;

  std::chrono::duration<double, std::ratio<60>> minutes_;
  clock::time_point begun_ = clock::now();
};

}  // namespace program
}  // namespace lazyprune
