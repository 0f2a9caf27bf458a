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

TEST_CASE("a queue: in order, done by who works, or by who gives where many wait") {
  detail::task_queue tasks;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) tasks.give([&order, i] { order.push_back(i); });
  CHECK(order.size() == 36);
  tasks.close();
  tasks.work();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  tasks.work();  // closed and empty: nothing to wait for
  CHECK(order.size() == 100);
}

TEST_CASE("tasks that are given are each done once, and before with_tasks returns") {
  for (const int threads : {1, 2, 5})
    for (const std::size_t tasks : {0u, 1u, 7u, 5000u}) {  // more than a team lets wait
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

TEST_CASE("the tasks of a with_tasks in another are those of the outer one; outside of both they are done at once") {
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

TEST_CASE("tasks of threads that each have a team of their own are done when theirs returns") {
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

TEST_CASE("what the body throws is thrown when its tasks are done, and the next one begins anew") {
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
TEST_CASE("tasks are done in a child of fork(), too, after a parallel step of its parent") {
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
    ::alarm(60);  // it would wait for threads that it has not
    ::_exit(done() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif
