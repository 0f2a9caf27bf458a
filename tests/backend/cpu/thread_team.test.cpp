// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/thread_team.hpp>

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <lazyprune/backend/cpu/parallel.hpp>

using namespace lazyprune;

TEST_CASE("a thread takes its own tasks from the front, then the tasks of the longest range from the back") {
  detail::task_ranges ranges;
  ranges.set(10, 3);  // 0 to 2, 3 to 5, 6 to 9
  std::vector<std::size_t> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(ranges.take(0));
  CHECK(taken == std::vector<std::size_t>{0, 1, 2, 9, 5});
  CHECK(ranges.take(2) == 6);
  CHECK(ranges.take(1) == 3);
  taken.clear();
  for (int i = 0; i < 4; ++i) taken.push_back(ranges.take(2));
  CHECK(taken == std::vector<std::size_t>{7, 8, 4, detail::task_ranges::none});
  CHECK(ranges.take(0) == detail::task_ranges::none);
}

TEST_CASE("more threads than ranges or tasks get every task once") {
  for (const std::size_t tasks : {0u, 1u, 5u, 1000u}) {
    CAPTURE(tasks);
    detail::task_ranges ranges;
    ranges.set(tasks, 200);
    std::vector<int> times(tasks);
    std::size_t busy = 200;
    for (std::size_t thread = 0; busy > 0; thread = (thread + 1) % 200) {
      const std::size_t task = ranges.take(thread);
      busy = task == detail::task_ranges::none ? busy - 1 : 200;
      if (task != detail::task_ranges::none) ++times[task];
    }
    CHECK(times == std::vector<int>(tasks, 1));
  }
}

TEST_CASE("with one range, all threads take the first task that is left") {
  detail::task_ranges ranges;
  ranges.set(3, 1);
  CHECK(ranges.take(5) == 0);
  CHECK(ranges.take(0) == 1);
  CHECK(ranges.take(7) == 2);
  CHECK(ranges.take(7) == detail::task_ranges::none);
}

#ifdef _OPENMP
TEST_CASE("many loops of one team do each of their tasks once, and a loop sees what the loop before wrote") {
  for (const int threads : {2, 3, 8}) {
    CAPTURE(threads);
    std::vector<std::size_t> numbers(37);
    detail::with_team(threads, [&] {
      for (std::size_t loop = 0; loop < 2000; ++loop) {
        const std::size_t tasks = 1 + loop % numbers.size();
        detail::for_tasks(threads, tasks, [&](std::size_t task, std::size_t) { numbers[task] += 1; });
        detail::for_growing_tasks(threads, tasks, [&](std::size_t task, std::size_t) { numbers[task] += task; });
      }
    });
    std::vector<std::size_t> expected(numbers.size());
    for (std::size_t loop = 0; loop < 2000; ++loop)
      for (std::size_t task = 0; task < 1 + loop % numbers.size(); ++task) expected[task] += 1 + task;
    CHECK(numbers == expected);
  }
}

TEST_CASE("threads that sleep between loops wake up for the next one") {
  std::atomic<int> done = 0;
  detail::with_team(2, [&] {
    for (int loop = 0; loop < 5; ++loop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than a thread spins
      std::atomic<int> here = 0;
      detail::for_tasks(2, 2, [&](std::size_t, std::size_t) {
        ++here;
        while (here < 2) std::this_thread::yield();  // the tasks end only if two threads are at them at once
        ++done;
      });
    }
  });
  CHECK(done == 10);
}

TEST_CASE("a loop inside a task runs on the thread of that task, and so does a team inside a team") {
  std::atomic<int> done = 0;
  detail::with_team(2, [&] {
    detail::for_tasks(
        2, 4, [&](std::size_t, std::size_t) { detail::for_tasks(2, 3, [&](std::size_t, std::size_t thread) { done += thread == 0; }); });
    detail::with_team(2, [&] { detail::for_tasks(2, 3, [&](std::size_t, std::size_t) { ++done; }); });
    detail::for_tasks(3, 5, [&](std::size_t, std::size_t thread) { done += thread == 0; });  // the team has two threads
  });
  CHECK(done == 4 * 3 + 3 + 5);
}

TEST_CASE("an exception ends the team and leaves it") {
  CHECK_THROWS_WITH_AS(detail::with_team(2, [] { throw std::runtime_error("out"); }), "out", std::runtime_error);
  CHECK(detail::team_here == nullptr);
  std::vector<int> times(9);
  detail::for_tasks(2, times.size(), [&](std::size_t task, std::size_t) { ++times[task]; });
  CHECK(times == std::vector<int>(9, 1));
}

#ifdef LAZYPRUNE_TEST_ALL  // AddressSanitizer's own memory is larger than any such limit
TEST_CASE("if threads cannot be started, can_start says so, and the caller does all tasks") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{std::size_t{1} << 20, std::size_t{1} << 20};
    if (detail::can_start(2) && ::setrlimit(RLIMIT_AS, &limit) == 0) {
      int done = 0;
      detail::with_team(65, [&] { detail::for_tasks(65, 7, [&](std::size_t, std::size_t thread) { done += thread == 0; }); });
      if (!detail::can_start(64) && !detail::can_start(65) && detail::can_start(2) && done == 7) ::_exit(0);
    }
    ::_exit(1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif
#endif
