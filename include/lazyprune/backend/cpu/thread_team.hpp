// SPDX-License-Identifier: MIT
// A team of threads that does the tasks of many loops, one loop after the other. A loop ends when its tasks are done. It does not wait for
// threads that have no task. With OpenMP's own loops, every thread must reach the end of every loop. On a busy machine, where the system
// stops threads for milliseconds, nearly every loop would then wait for a thread that is stopped.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
#endif

namespace lazyprune {
inline namespace v0 {
namespace detail {

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

#ifdef _OPENMP
/// Returns whether this process can start this number of threads beside its own. OpenMP ends the process if it cannot start a thread,
/// because of a limit of memory or of processes. So this function tries it first: it starts and ends this many threads, once for each
/// number larger than before. Their stacks have the default size, so a larger OMP_STACKSIZE is not checked. Teams that other threads lead
/// at the same time are not counted. After a refusal, this number and larger ones are always refused.
inline bool can_start(int threads) {
  static std::atomic<int> started = 0, refused = std::numeric_limits<int>::max();
  if (threads <= started.load(std::memory_order_relaxed)) return true;
  if (threads >= refused.load(std::memory_order_relaxed)) return false;
  std::atomic<bool> all = false;
  const auto wait = [](void* end) -> void* {
    static_cast<std::atomic<bool>*>(end)->wait(false);
    return nullptr;
  };
  std::vector<pthread_t> waiting(static_cast<std::size_t>(threads));
  std::size_t count = 0;
  while (count < waiting.size() && pthread_create(&waiting[count], nullptr, wait, &all) == 0) ++count;
  all = true;
  all.notify_all();
  for (std::size_t i = 0; i < count; ++i) pthread_join(waiting[i], nullptr);
  const bool enough = count == waiting.size();
  (enough ? started : refused).store(threads, std::memory_order_relaxed);
  return enough;
}
#endif

/// Ranges of neighbouring tasks. Several threads take tasks from them at once, and each task is taken once.
class task_ranges {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Divides the tasks into this number of ranges, or into 128 if that is less. No task may be left from before, and `tasks` must be less
  /// than 2^32.
  void set(std::size_t tasks, std::size_t ranges) {
    const std::size_t count = std::clamp<std::size_t>(ranges, 1, ranges_.size());
    count_.store(count, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i)
      ranges_[i].ends.store(joined({tasks * i / count, tasks * (i + 1) / count}), std::memory_order_release);
  }

  /// Takes a task for this thread: the first one of the thread's own range. If that range is empty, the result is the last task of the
  /// longest range. Returns `none` if no task is left.
  std::size_t take(std::size_t thread) {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    if (const std::size_t task = take(ranges_[thread % count], true); task != none) return task;
    for (;;) {
      range* longest = nullptr;
      std::size_t most = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const part left = parted(ranges_[i].ends.load(std::memory_order_relaxed));
        if (left.end - left.begin <= most) continue;
        most = left.end - left.begin;
        longest = &ranges_[i];
      }
      if (!longest) return none;
      if (const std::size_t task = take(*longest, false); task != none) return task;
    }
  }

 private:
  struct part {
    std::size_t begin, end;
  };
  struct alignas(64) range {  // a cache line of its own
    std::atomic<std::uint64_t> ends = 0;
  };

  static std::uint64_t joined(const part& t) { return static_cast<std::uint64_t>(t.begin) << 32 | t.end; }
  static part parted(std::uint64_t ends) { return {static_cast<std::size_t>(ends >> 32), static_cast<std::size_t>(ends & 0xffffffff)}; }

  static std::size_t take(range& from, bool first) {
    std::uint64_t ends = from.ends.load(std::memory_order_relaxed);
    for (;;) {
      const part left = parted(ends);
      if (left.begin == left.end) return none;
      const part rest = first ? part{left.begin + 1, left.end} : part{left.begin, left.end - 1};
      if (from.ends.compare_exchange_weak(ends, joined(rest), std::memory_order_acquire, std::memory_order_relaxed))
        return first ? left.begin : rest.end;
    }
  }

  std::atomic<std::size_t> count_ = 1;
  std::array<range, 128> ranges_;
};

/// The threads of one parallel region. Thread 0 starts loops, and the others wait for them in `work`.
class thread_team {
 public:
  explicit thread_team(int threads) : threads_(threads) {}

  int threads() const { return threads_; }

  /// Calls body(task, thread) for each task, on all threads of the team. The tasks are divided into this number of ranges. Thread 0 calls
  /// this. `body` must not throw.
  template <class Body>
  void run(std::size_t tasks, std::size_t ranges, const Body& body) {
    call_ = [](const void* of, std::size_t task, std::size_t thread) { (*static_cast<const Body*>(of))(task, thread); };
    body_ = &body;
    left_.store(static_cast<std::uint32_t>(tasks), std::memory_order_relaxed);
    tasks_.set(tasks, ranges);  // from here on threads take tasks, and read the three members above
    loops_.fetch_add(1, std::memory_order_seq_cst);
    loops_.notify_all();
    do_tasks(0);
    wait(left_, [](std::uint32_t left) { return left == 0; });
  }

  /// Does tasks of all loops until thread 0 calls `close`.
  void work(std::size_t thread) {
    for (;;) {
      const std::uint32_t seen = loops_.load(std::memory_order_acquire);
      do_tasks(thread);
      if (closed_.load(std::memory_order_acquire)) return;
      wait(loops_, [seen](std::uint32_t loops) { return loops != seen; });
    }
  }

  void close() {
    closed_.store(true, std::memory_order_release);
    loops_.fetch_add(1, std::memory_order_seq_cst);
    loops_.notify_all();
  }

 private:
  static constexpr std::chrono::microseconds spinning{50};  // then a waiting thread sleeps, and leaves its processor to others

  void do_tasks(std::size_t thread) {
    for (std::size_t task = tasks_.take(thread); task != task_ranges::none; task = tasks_.take(thread)) {
      call_(body_, task, thread);
      if (left_.fetch_sub(1, std::memory_order_seq_cst) == 1) left_.notify_one();
    }
  }

  /// Returns when done(value) is true.
  template <class T, class Done>
  static void wait(const std::atomic<T>& value, const Done& done) {
    const auto start = std::chrono::steady_clock::now();
    do
      for (int i = 0; i < 64; ++i) {
        if (done(value.load(std::memory_order_acquire))) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
    while (std::chrono::steady_clock::now() - start < spinning);
    for (T now = value.load(); !done(now); now = value.load()) value.wait(now);
  }

  int threads_;
  void (*call_)(const void* body, std::size_t task, std::size_t thread) = nullptr;
  const void* body_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> left_ = 0;   // tasks of this loop that are not done
  alignas(64) std::atomic<std::uint32_t> loops_ = 0;  // the number of loops so far
  std::atomic<bool> closed_ = false;
  task_ranges tasks_;
};

/// Starts threads in a parallel region. Thread 0, which is this thread, calls body() and then end(). The others call follow(thread).
/// Returns when all are done. If body throws, end() is called, too, and the exception is rethrown when all are done.
template <class Body, class End, class Follow>
void lead_threads([[maybe_unused]] int threads, const Body& body, const End& end, [[maybe_unused]] const Follow& follow) {
  std::exception_ptr fault;  // no exception may leave a parallel region
  const auto lead = [&] {
    try {
      body();
    } catch (...) {
      fault = std::current_exception();
    }
    end();
  };
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    if (const int thread = omp_get_thread_num(); thread > 0)
      follow(static_cast<std::size_t>(thread));
    else
      lead();
  }
#else
  lead();
#endif
  if (fault) std::rethrow_exception(fault);
}

/// Returns whether a team of this number of threads can be started.
inline bool can_lead([[maybe_unused]] int threads) {
#ifdef _OPENMP
  return threads > 1 && !team_is_lost() && can_start(threads - 1);
#else
  return false;
#endif
}

/// The team whose thread 0 this thread is, or null. It is also null while this thread is at a task.
inline constinit thread_local thread_team* team_here = nullptr;

/// Calls body() on this thread. Loops in it share one team, see thread_team. If this thread has a team already, or `threads` is 1, only
/// calls body().
template <class Body>
void with_team(int threads, const Body& body) {
  if (team_here || !can_lead(threads)) return body();
  thread_team team(threads);
  team_here = &team;
  const auto end = [&] {
    team_here = nullptr;
    team.close();
  };
  lead_threads(threads, body, end, [&](std::size_t thread) { team.work(thread); });
}

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
