// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/task_queue.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace lazyprune;

TEST_CASE("tasks run in order, in `work` or, if many wait, in `give`") {
  detail::task_queue tasks;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) tasks.give([&order, i] { order.push_back(i); });
  CHECK(order.size() == 36);
  tasks.close();
  tasks.work();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  tasks.work();  // returns, because the queue is closed and empty
  CHECK(order.size() == 100);
}

TEST_CASE("each task is done once, before with_tasks returns") {
  for (const int threads : {1, 2, 5})
    for (const std::size_t tasks : {0u, 1u, 7u, 5000u}) {  // 5,000 tasks are more than the queue lets wait
      CAPTURE(threads);
      CAPTURE(tasks);
      std::vector<int> times(tasks);
      const auto giver = std::this_thread::get_id();
      detail::with_tasks(threads, [&] {
        CHECK(std::this_thread::get_id() == giver);
        for (std::size_t i = 0; i < tasks; ++i) detail::give_task([&times, i] { ++times[i]; });
      });
      CHECK(times == std::vector<int>(tasks, 1));
    }
}

TEST_CASE("an inner with_tasks gives its tasks to the outer one; outside of both, tasks are done at once") {
  int alone = 0;
  detail::give_task([&] { ++alone; });
  CHECK(alone == 1);
  std::vector<int> times(100);
  detail::with_tasks(3, [&] {
    for (std::size_t i = 0; i < times.size(); ++i) detail::with_tasks(2, [&] { detail::give_task([&times, i] { ++times[i]; }); });
  });
  CHECK(times == std::vector<int>(100, 1));
  detail::give_task([&] { ++alone; });
  CHECK(alone == 2);
}

TEST_CASE("several threads can call with_tasks at once, and each gets its own tasks done") {
  std::vector<int> right(4);
  {
    std::vector<std::jthread> running;
    for (int& count : right)
      running.emplace_back([&count] {
        for (int round = 0; round < 20; ++round) {
          std::vector<int> times(50);
          detail::with_tasks(2, [&] {
            for (int& time : times) detail::give_task([&time] { ++time; });
          });
          count += times == std::vector<int>(50, 1);
        }
      });
  }
  CHECK(right == std::vector<int>(4, 20));
#ifdef _OPENMP
  std::vector<int> done(3), whole(3);
#pragma omp parallel num_threads(3)
  {
    const auto self = static_cast<std::size_t>(omp_get_thread_num());
    for (const int threads : {1, 2}) {
      int times = 0;
      detail::with_tasks(threads, [&] {
        for (int i = 0; i < 50; ++i) detail::give_task([&times] { ++times; });
      });
      done[self] += times;
      whole[self] += times == 50;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(done[i] == 100 * (whole[i] == 2));
#endif
}

TEST_CASE("an exception of the body is rethrown after the body's tasks are done, and later tasks run as usual") {
  for (const int threads : {1, 4}) {
    std::vector<int> times(300);
    CHECK_THROWS_WITH_AS(detail::with_tasks(threads,
                                            [&] {
                                              for (int& time : times) detail::give_task([&time] { ++time; });
                                              throw std::runtime_error("no more");
                                            }),
                         "no more", std::runtime_error);
    CHECK(times == std::vector<int>(300, 1));
    int alone = 0;
    detail::give_task([&] { ++alone; });
    CHECK(alone == 1);
  }
}

#ifdef _OPENMP
TEST_CASE("tasks are done in a child of fork() after a parallel loop of its parent") {
  const auto done = [] {
    std::atomic<int> count = 0;
    lazyprune::detail::with_tasks(2, [&] {
      for (int i = 0; i < 10; ++i) lazyprune::detail::give_task([&] { ++count; });
    });
    return count == 10;
  };
  CHECK(done());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // on failure the child would wait forever for threads that it does not have
    ::_exit(done() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif
