// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace lazyprune;

namespace {

/// Checks that the loop does each task once, and that its threads have numbers below `threads`.
template <class Loop>
void check_loop(const Loop& loop, int threads, std::size_t tasks) {
  std::vector<int> times(tasks);
  std::vector<std::size_t> by(tasks);
  loop(threads, tasks, [&](std::size_t task, std::size_t thread) {
    ++times[task];
    by[task] = thread;
  });
  CHECK(times == std::vector<int>(tasks, 1));
  for (const std::size_t thread : by) CHECK(thread < static_cast<std::size_t>(threads));
}

}  // namespace

TEST_CASE("every loop does every task once, for any numbers of threads and tasks") {
  for (const int threads : {1, 2, 3, 8})
    for (const std::size_t tasks : {0u, 1u, 2u, 7u, 8u, 9u, 100u}) {
      CAPTURE(threads);
      CAPTURE(tasks);
      check_loop([](int n, std::size_t count, auto body) { detail::for_tasks(n, count, body); }, threads, tasks);
      check_loop([](int n, std::size_t count, auto body) { detail::for_growing_tasks(n, count, body); }, threads, tasks);
    }
}

#ifdef _OPENMP
TEST_CASE("while one thread is at a long task, the others do all other tasks, the largest first") {
  for (const bool growing : {false, true}) {
    CAPTURE(growing);
    constexpr std::size_t tasks = 12;
    std::atomic<std::size_t> done = 0;
    std::vector<std::size_t> order(tasks);
    const auto body = [&](std::size_t task, std::size_t) {
      if (task == (growing ? tasks - 1 : 0))
        while (done.load() + 1 < tasks) std::this_thread::yield();  // this is a task that takes as long as all others together
      order[done++] = task;
    };
    if (growing)
      detail::for_growing_tasks(2, tasks, body);
    else
      detail::for_tasks(2, tasks, body);
    CHECK(done == tasks);
    if (growing) CHECK(std::ranges::is_sorted(order.begin(), order.end() - 1, std::greater<>()));
  }
}
#endif

TEST_CASE("little work gets one thread, more work gets all") {
  CHECK(detail::threads_for(8, 0) == 1);
  CHECK(detail::threads_for(8, 3999) == 1);
  CHECK(detail::threads_for(8, 4000) == 8);
  CHECK(detail::threads_for(1, 1'000'000) == 1);
}

TEST_CASE("scratch memory is kept until it must grow") {
  detail::scratch_memory space;
  CHECK(space.bytes() == 0);
  float* first = space.take(100);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  CHECK(space.take(7) == first);
  CHECK(space.take(100) == first);
  CHECK(space.bytes() == 400);
  CHECK(space.take(1000) != nullptr);
  CHECK(space.bytes() == 4000);
}

static_assert(detail::whole_lines(0) == 0 && detail::whole_lines(1) == 16 && detail::whole_lines(16) == 16 &&
              detail::whole_lines(17) == 32);

#ifdef _OPENMP
TEST_CASE("there are no more threads than usable processors, unless OMP_NUM_THREADS is set") {
  CHECK(detail::available_threads() >= 1);
  if (!std::getenv("OMP_NUM_THREADS")) CHECK(detail::available_threads() <= usable_processors());
}

TEST_CASE("a child of fork() can compute after a parallel loop of its parent") {
  const auto sum = [] {
    std::vector<int> done(100);
    detail::for_tasks(2, done.size(), [&](std::size_t task, std::size_t) { done[task] = static_cast<int>(task); });
    detail::for_growing_tasks(2, done.size(), [&](std::size_t task, std::size_t) { done[task] += 1; });
    return std::accumulate(done.begin(), done.end(), 0);
  };
  CHECK(sum() == 5050);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // on failure the child would wait forever for threads that it does not have
    ::_exit(sum() == 5050 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(sum() == 5050);
}
#endif
