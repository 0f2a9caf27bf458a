// SPDX-License-Identifier: MIT
// Loops over tasks on several threads. The results are the same for any number of threads, whichever thread does a task.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <lazyprune/backend/cpu/thread_team.hpp>
#include <lazyprune/backend/machine_limits.hpp>
#include <lazyprune/backend/memory/aligned_array.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Returns whether OMP_NUM_THREADS is set to a number. OpenMP ignores any other text.
inline bool threads_are_chosen() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  return text && std::strtol(text, nullptr, 10) > 0;
}

/// Returns the number of threads that the process may use: OMP_NUM_THREADS if it is set, otherwise its processors, limited by its CPU
/// quota. With more threads than the quota pays for, running threads would wait for threads that the system has stopped. Returns 1 without
/// OpenMP.
inline int available_threads() {
#ifdef _OPENMP
  static const int usable = threads_are_chosen() ? std::numeric_limits<int>::max() : usable_processors();
  return std::min(omp_get_max_threads(), usable);
#else
  return 1;
#endif
}

/// Returns the number of threads for work that takes one thread about `nanoseconds`. The result is 1 if starting a team takes longer than
/// the team saves, and `threads` otherwise. No result lies between 1 and `threads`, because for a smaller team OpenMP would end the other
/// threads, and start them again later.
constexpr int threads_for(int threads, std::size_t nanoseconds) { return nanoseconds < 4000 ? 1 : threads; }

/// Does the tasks 0 to tasks - 1 in one loop of a team: the team that this thread has, or one for this loop alone. Inside a task there is
/// no team.
template <class Body>
void in_team(int threads, std::size_t tasks, std::size_t ranges, const Body& body) {
  const auto alone = [&] {
    for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
  };
  if (threads <= 1 || tasks <= 1) return alone();
  with_team(threads, [&] {
    thread_team* const team = std::exchange(team_here, nullptr);
    if (team && team->threads() == threads)
      team->run(tasks, ranges, body);
    else
      alone();
    team_here = team;
  });
}

/// Calls body(task, thread) for each task. `body` must not throw. Each thread does a range of neighbouring tasks, and then takes tasks from
/// the end of ranges that other threads have not done.
template <class Body>
void for_tasks(int threads, std::size_t tasks, const Body& body) {
  in_team(threads, tasks, static_cast<std::size_t>(threads), body);
}

/// Does the same as for_tasks, for loops in which later tasks are larger. Each thread takes the last task that is left. So the smallest
/// tasks come last, and the threads end at nearly the same time.
template <class Body>
void for_growing_tasks(int threads, std::size_t tasks, const Body& body) {
  in_team(threads, tasks, 1, [&](std::size_t i, std::size_t thread) { body(tasks - 1 - i, thread); });
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
