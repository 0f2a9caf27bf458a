// SPDX-License-Identifier: MIT
// Runs independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lazyprune {
namespace program {

/// Calls take(i, make(i)) for each piece of work i = 0, 1, ... n - 1. Up to `at_once` threads run `make`; one of them is the caller's.
/// Only one thread at a time runs `take`. `enough(i)` is called before piece i begins. If it returns true, neither piece i nor any later
/// piece begins. If a call throws, no further piece begins. The pieces that have begun are finished and taken. The first exception is then
/// thrown again.
template <class Make, class Take>
void side_by_side(std::size_t n, std::size_t at_once, const Make& make, const Take& take,
                  const std::function<bool(std::size_t)>& enough = {}) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex taking;
  const auto go_on = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < n;) {
      try {
        if (enough && enough(i)) {
          next = n;
          return;
        }
        auto made = make(i);
        const std::lock_guard lock(taking);
        take(i, std::move(made));
      } catch (...) {
        next = n;
        const std::lock_guard lock(taking);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t k = 1; k < std::min(at_once, n); ++k) others.emplace_back(go_on);
    go_on();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace program
}  // namespace lazyprune
