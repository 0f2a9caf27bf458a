// SPDX-License-Identifier: MIT
// Runs work on several threads at the same time.
#pragma once

#include <cstddef>
#include <exception>
#include <latch>
#include <thread>
#include <vector>

namespace lazyprune_test {

/// Calls work(i) for each i below `count`, each on a new thread. The threads begin when all of them have started. Returns when all have
/// ended. If a call throws, rethrows the exception of the first such i.
template <class Work>
void on_threads(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> faults(count);
  {
    std::latch all_started(static_cast<std::ptrdiff_t>(count));
    std::vector<std::jthread> running;
    const auto one = [&](std::size_t i) {
      all_started.arrive_and_wait();
      try {
        work(i);
      } catch (...) {
        faults[i] = std::current_exception();
      }
    };
    for (std::size_t i = 0; i < count; ++i) {
      try {
        running.emplace_back(one, i);
      } catch (...) {  // no thread can be started: the others must not wait for it
        all_started.count_down(static_cast<std::ptrdiff_t>(count - i));
        throw;
      }
    }
  }
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
}

}  // namespace lazyprune_test
