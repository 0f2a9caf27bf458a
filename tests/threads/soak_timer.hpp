// SPDX-License-Identifier: MIT
// How long a soak runs.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>

namespace lazyprune_test {

/// Counts the time of a soak, from its construction on.
class soak_timer {
 public:
  /// Returns whether the soak is to go on. It lasts $LAZYPRUNE_SOAK_SECONDS seconds, or only the least that the test needs.
  bool goes_on() const {
    const char* given = std::getenv("LAZYPRUNE_SOAK_SECONDS");
    return given && std::chrono::steady_clock::now() - start_ < std::chrono::duration<double>(std::stod(given));
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lazyprune_test
