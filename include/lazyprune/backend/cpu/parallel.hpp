// SPDX-License-Identifier: MIT
// Loops over tasks on several threads. The loops differ in how they divide the tasks among the threads. The results are the same for any
// division and any number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
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

/// Ranges of neighbouring tasks, one for each thread. A thread takes tasks from the front of its own range. After the last of them it takes
/// tasks from the back of the longest range. So a thread that the system has stopped delays the others by one task, not by a range.
class task_ranges {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// `tasks` must be less than 2^32.
  task_ranges(std::size_t tasks, std::size_t threads) : count_(std::clamp<std::size_t>(std::min(threads, most), 1, most)) {
    for (std::size_t i = 0; i < count_; ++i) ranges_[i].ends = joined({tasks * i / count_, tasks * (i + 1) / count_});
  }

  /// Returns the next task for this thread, or `none` if all tasks are taken.
  std::size_t next(std::size_t thread) {
    range& own = ranges_[thread % count_];
    if (const std::size_t task = take(own, true); task != none) return task;
    for (;;) {
      range* longest = nullptr;
      std::size_t most_tasks = 0;
      for (std::size_t i = 0; i < count_; ++i) {
        const tasks left = parted(ranges_[i].ends.load(std::memory_order_relaxed));
        if (left.end - left.begin <= most_tasks) continue;
        most_tasks = left.end - left.begin;
        longest = &ranges_[i];
      }
      if (!longest) return none;
      if (const std::size_t task = take(*longest, false); task != none) return task;
    }
  }

 private:
  static constexpr std::size_t most = 128;  // more threads share ranges

  struct tasks {
    std::size_t begin, end;
  };
  struct alignas(64) range {  // a cache line of its own
    std::atomic<std::uint64_t> ends;
  };

  static std::uint64_t joined(const tasks& t) { return static_cast<std::uint64_t>(t.begin) << 32 | t.end; }
  static tasks parted(std::uint64_t ends) { return {static_cast<std::size_t>(ends >> 32), static_cast<std::size_t>(ends & 0xffffffff)}; }

  static std::size_t take(range& from, bool front) {
    std::uint64_t ends = from.ends.load(std::memory_order_relaxed);
    for (;;) {
      const tasks left = parted(ends);
      if (left.begin == left.end) return none;
      const tasks rest = front ? tasks{left.begin + 1, left.end} : tasks{left.begin, left.end - 1};
      if (from.ends.compare_exchange_weak(ends, joined(rest), std::memory_order_relaxed)) return front ? left.begin : rest.end;
    }
  }

  std::size_t count_;
  std::array<range, most> ranges_;
};

/// Does the same as for_tasks, but threads that are done take tasks from the ranges of others, see task_ranges.
template <class Body>
void for_shared_tasks([[maybe_unused]] int threads, std::size_t tasks, const Body& body) {
#ifdef _OPENMP
  if (threads > 1 && tasks > 1 && !team_is_lost()) {
    task_ranges ranges(tasks, static_cast<std::size_t>(threads));
#pragma omp parallel num_threads(threads)
    {
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
      for (std::size_t task = ranges.next(thread); task != task_ranges::none; task = ranges.next(thread)) body(task, thread);
    }
    return;
  }
#endif
  for (std::size_t task = 0; task < tasks; ++task) body(task, std::size_t{0});
}

/// Does the same as for_tasks, for loops in which later tasks are larger. Each thread takes the last task that is left. So the smallest
/// tasks come last, and the threads end at nearly the same time.
template <class Body>
void for_growing_tasks([[maybe_unused]] int threads, std::size_t tasks, const Body& body) {
#ifdef _OPENMP
  if (threads > 1 && tasks > 1 && !team_is_lost()) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (std::size_t i = 0; i < tasks; ++i) body(tasks - 1 - i, static_cast<std::size_t>(omp_get_thread_num()));
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
