// SPDX-License-Identifier: MIT
// Loops over tasks on several threads. Each task is assigned to a thread before the loop starts. The tasks are the same for any number of
// threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

#include <lazyprune/backend/machine_limits.hpp>
#include <lazyprune/backend/memory/aligned_array.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Returns the number of threads that the process may use: OMP_NUM_THREADS if it is set, otherwise its processors, limited by its CPU
/// quota. With more threads than the quota pays for, running threads would wait for threads that the system has stopped. Returns 1 without
/// OpenMP.
inline int available_threads() {
#ifdef _OPENMP
  static const int usable = std::getenv("OMP_NUM_THREADS") ? std::numeric_limits<int>::max() : usable_processors();
  return std::min(omp_get_max_threads(), usable);
#else
  return 1;
#endif
}

/// Returns the number of threads for work that takes one thread about `nanoseconds`. The result is 1 if starting a team takes longer than
/// the team saves, and `threads` otherwise. No result lies between 1 and `threads`, because for a smaller team OpenMP would end the other
/// threads, and start them again later.
constexpr int threads_for(int threads, std::size_t nanoseconds) { return nanoseconds < 4000 ? 1 : threads; }

/// Returns true if this process is a child of fork() and lacks the threads of an earlier team. GNU OpenMP keeps the threads of a team for
/// the next team. fork() does not copy these threads to the child, and there GNU OpenMP would wait for them forever. In such a child the
/// caller does all tasks, with the same results. LLVM's OpenMP starts new threads in a child, so with Clang the result is always false.
inline bool team_is_lost() {
#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__)
  static std::atomic<bool> lost = false;
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { lost = true; });  // watches from the first team on
  return lost.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

/// Calls body(task, thread) for each task. `body` must not throw. Each thread does one range of neighbouring tasks.
template <class Body>
void for_tasks([[maybe_unused]] int threads, std::size_t tasks, const Body& body) {
#ifdef _OPENMP
  if (threads > 1 && tasks > 1 && !team_is_lost()) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::size_t task = 0; task < tasks; ++task) body(task, static_cast<std::size_t>(omp_get_thread_num()));
    return;
  }
#endif
  for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
}

/// Does the same as for_tasks, but the threads take turns at the tasks. This is for loops in which later tasks are larger.
template <class Body>
void for_tasks_in_turn([[maybe_unused]] int threads, std::size_t tasks, const Body& body) {
#ifdef _OPENMP
  if (threads > 1 && tasks > 1 && !team_is_lost()) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (std::size_t task = 0; task < tasks; ++task) body(task, static_cast<std::size_t>(omp_get_thread_num()));
    return;
  }
#endif
  for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
}

/// Memory that an operation uses while it runs. It grows to the largest operation seen and is then reused.
class scratch_memory {
 public:
  /// Returns memory for `count` floats, aligned to a cache line. Earlier contents are lost.
  float* take(std::size_t count) {
    if (count > memory_.size()) {
      memory_ = {};  // frees the old memory first, so that old and new memory never exist at once
      memory_ = aligned_array<float>(count);
    }
    return memory_.data();
  }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  aligned_array<float> memory_;
};

/// Rounds a number of floats up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
