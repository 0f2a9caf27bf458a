// SPDX-License-Identifier: MIT
// Loops over tasks on several threads. Who does which task is fixed, and no task depends on how many threads there are.
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

/// All that the process may use: OMP_NUM_THREADS where it is set, else its processors as far as its CPU quota goes (threads that wait for
/// one another stand still when the quota is used up); 1 without OpenMP.
inline int available_threads() {
#ifdef _OPENMP
  static const int usable = std::getenv("OMP_NUM_THREADS") ? std::numeric_limits<int>::max() : usable_processors();
  return std::min(omp_get_max_threads(), usable);
#else
  return 1;
#endif
}

/// The threads to give to work that takes one of them about so many nanoseconds: all, or one where a team would take longer to start than
/// it saves. Nothing between: OpenMP ends the threads that a smaller team does not need, and would have to start them again.
constexpr int threads_for(int threads, std::size_t nanoseconds) { return nanoseconds < 4000 ? 1 : threads; }

/// True where the threads of an earlier team are gone. GNU OpenMP keeps them for the next team, and waits for them forever in a child of
/// fork(), where they are not: there the caller does all tasks, which gives the same results. LLVM's OpenMP starts new ones.
inline bool team_is_lost() {
#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__)
  static std::atomic<bool> lost = false;
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { lost = true; });  // once there is a team to lose
  return lost.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

/// body(task, thread) for each task, which must not throw: every thread does one run of neighbours.
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

/// The same, in turn: for tasks of which later ones are larger.
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

/// Memory for the course of one operation: grows to the largest one seen and stays.
class scratch_memory {
 public:
  /// Room for `count` floats, on a cache line's boundary; what is in it is lost.
  float* take(std::size_t count) {
    if (count > memory_.size()) {
      memory_ = {};  // first, so that both are never there at once
      memory_ = aligned_array<float>(count);
    }
    return memory_.data();
  }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  aligned_array<float> memory_;
};

/// Floats up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
