// SPDX-License-Identifier: MIT
// Tasks that a team of threads takes up while they are still being given: where each operation had a team of its own, all would wait for
// the slowest at the end of every one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <lazyprune/backend/cpu/parallel.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Tasks, which must not throw, in the order in which they are given.
class task_queue {
 public:
  /// Leaves the task to those who work; where many wait already, the caller does the first of these.
  void give(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    more_.notify_one();
    if (tasks_.size() > most_waiting) do_first(lock);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    more_.notify_all();
  }

  /// Does tasks until it is closed and none is left.
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      more_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      do_first(lock);
    }
  }

 private:
  static constexpr std::size_t most_waiting = 64;

  void do_first(std::unique_lock<std::mutex>& lock) {
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
};

/// Of the with_tasks that this thread is in the body of.
inline constinit thread_local task_queue* tasks_here = nullptr;

/// Calls body, on this thread, and returns when the tasks that it gives are done as well: the other threads begin with them meanwhile. What
/// body throws is thrown when they are done. In the body of another one it only calls: that one waits.
template <class Body>
void with_tasks([[maybe_unused]] int threads, const Body& body) {
#ifdef _OPENMP
  if (threads > 1 && !tasks_here && !team_is_lost()) {
    task_queue tasks;
    std::exception_ptr fault;  // none may leave a parallel region
#pragma omp parallel num_threads(threads)
    {
      if (omp_get_thread_num() == 0) {
        tasks_here = &tasks;
        try {
          body();
        } catch (...) {
          fault = std::current_exception();
        }
        tasks_here = nullptr;
        tasks.close();
      }
      tasks.work();
    }
    if (fault) std::rethrow_exception(fault);
    return;
  }
#endif
  body();
}

/// Leaves a task to the threads of with_tasks; outside of it, does it now.
template <class Task>
void give_task(const Task& task) {
  if (tasks_here)
    tasks_here->give(task);
  else
    task();
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
