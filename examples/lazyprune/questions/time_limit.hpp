// SPDX-License-Identifier: MIT
// After so long nothing more is begun.
#pragma once

#include <chrono>
#include <ratio>

namespace lazyprune {
namespace program {

class time_limit {
 public:
  /// From now on; 0: no end.
  explicit time_limit(double minutes = 0) : minutes_(minutes) {}

  bool over() const { return minutes_.count() > 0 && clock::now() - begun_ >= minutes_; }

 private:
  using clock = std::chrono::steady_clock;

  std::chrono::duration<double, std::ratio<60>> minutes_;
  clock::time_point begun_ = clock::now();
};

}  // namespace program
}  // namespace lazyprune
