// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/parallel.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace lazyprune;

namespace {

/// Returns the thread of each task, and checks that each task was done once.
template <class Loop>
std::vector<std::size_t> done_by(const Loop& loop, int threads, std::size_t tasks) {
  std::vector<int> times(tasks);
  std::vector<std::size_t> by(tasks);
  loop(threads, tasks, [&](std::size_t task, std::size_t thread) {
    ++times[task];
    by[task] = thread;
  });
  CHECK(times == std::vector<int>(tasks, 1));
  for (const std::size_t thread : by) CHECK(thread < static_cast<std::size_t>(threads));
  return by;
}

}  // namespace

TEST_CASE("every task is done once, in ranges or in turn, for any numbers of threads and tasks") {
  for (const int threads : {1, 2, 3, 8})
    for (const std::size_t tasks : {0u, 1u, 2u, 7u, 8u, 9u, 100u}) {
      CAPTURE(threads);
      CAPTURE(tasks);
      const auto runs = done_by([](int n, std::size_t count, auto body) { detail::for_tasks(n, count, body); }, threads, tasks);
      CHECK(std::ranges::is_sorted(runs));  // each thread has one range
      const auto turns = done_by([](int n, std::size_t count, auto body) { detail::for_tasks_in_turn(n, count, body); }, threads, tasks);
      for (std::size_t i = static_cast<std::size_t>(threads); i < tasks; ++i)
        CHECK(turns[i] == turns[i - static_cast<std::size_t>(threads)]);
    }
}

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
    detail::for_tasks_in_turn(2, done.size(), [&](std::size_t task, std::size_t) { done[task] += 1; });
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
