// SPDX-License-Identifier: MIT
// A queue of tasks. A team of threads works on it while more tasks are added. If each operation had its own team, all threads would wait
// for the slowest one at the end of every operation.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include <lazyprune/backend/cpu/thread_team.hpp>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Starts tasks in the order in which they are given. Tasks must not throw.
class task_queue {
 public:
  /// Adds a task for the threads in `work`. If many tasks wait already, the caller runs the first of them.
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

  /// Runs tasks until the queue is closed and empty.
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

/// The queue of the with_tasks call whose body this thread runs, or null.
inline constinit thread_local task_queue* tasks_here = nullptr;

/// Calls body() on this thread, while other threads start on the tasks that body gives. Returns when these tasks are done. If body throws,
/// the exception is rethrown when the tasks are done. Inside the body of another with_tasks, this call only calls body(), and the outer
/// call waits for the tasks.
template <class Body>
void with_tasks(int threads, const Body& body) {
  if (tasks_here || !can_lead(threads)) return body();
  task_queue tasks;
  tasks_here = &tasks;
  const auto end = [&] {
    tasks_here = nullptr;
    tasks.close();
    tasks.work();
  };
  lead_threads(threads, body, end, [&](std::size_t) { tasks.work(); });
}

/// Gives a task to the threads of with_tasks. If no queue exists (outside with_tasks, or with one thread), runs the task now.
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
