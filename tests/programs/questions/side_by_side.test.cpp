// SPDX-License-Identifier: MIT
#include "questions/side_by_side.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace lazyprune::program;

TEST_CASE("each piece is made once, on at most `at_once` threads, and taken one at a time") {
  for (const std::size_t at_once : {1u, 2u, 5u, 100u})
    for (const std::size_t n : {0u, 1u, 4u, 50u}) {
      CAPTURE(at_once);
      CAPTURE(n);
      std::vector<std::atomic<int>> calls(n);
      std::vector<std::string> taken(n);
      std::atomic<std::size_t> at_work{0}, most{0};
      std::atomic<int> taking{0}, together{0};
      const auto make = [&](std::size_t i) {
        std::size_t now = ++at_work;
        for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        ++calls[i];
        --at_work;
        return std::to_string(i);
      };
      side_by_side(n, at_once, make, [&](std::size_t i, std::string&& made) {
        if (++taking > 1) ++together;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        taken[i] = std::move(made);
        --taking;
      });
      for (std::size_t i = 0; i < n; ++i) CHECK(calls[i] == 1);
      for (std::size_t i = 0; i < n; ++i) CHECK(taken[i] == std::to_string(i));
      CHECK(together == 0);
      CHECK(most <= at_once);
    }
}

TEST_CASE("two pieces run at the same time") {
  std::atomic<int> at_work{0};
  std::atomic<bool> met{false};
  const auto wait_for_other = [&](std::size_t) {
    ++at_work;
    for (int waits = 0; waits < 10'000 && !met; ++waits) {
      if (at_work == 2) met = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return --at_work;
  };
  side_by_side(2, 2, wait_for_other, [](std::size_t, int) {});
  CHECK(met);
}

TEST_CASE("with one thread, pieces run in order on the caller's thread") {
  std::vector<std::size_t> order;
  const auto here = std::this_thread::get_id();
  bool elsewhere = false;
  const auto make = [&](std::size_t i) {
    elsewhere |= std::this_thread::get_id() != here;
    return i;
  };
  side_by_side(5, 1, make, [&](std::size_t, std::size_t made) { order.push_back(made); });
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4});
  CHECK_FALSE(elsewhere);
}

TEST_CASE("after `enough` returns true, no piece begins, and the pieces that have begun are taken") {
  for (const std::size_t at_once : {1u, 4u})
    for (const std::size_t most : {0u, 1u, 7u}) {
      std::vector<std::size_t> taken;
      side_by_side(
          20, at_once, [](std::size_t i) { return i; }, [&](std::size_t, std::size_t made) { taken.push_back(made); },
          [&](std::size_t i) { return i >= most; });
      std::ranges::sort(taken);
      std::vector<std::size_t> first(most);
      std::iota(first.begin(), first.end(), std::size_t{0});
      CHECK(taken == first);
    }
}

TEST_CASE("after an exception, no piece begins, and the pieces that have begun are taken") {
  for (const std::size_t at_once : {1u, 4u})
    for (const bool while_taking : {false, true}) {
      std::atomic<int> begun{0};
      int taken = 0;
      const auto make = [&](std::size_t i) {
        ++begun;
        if (i == 2 && !while_taking) throw std::runtime_error("two");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return i;
      };
      const auto take = [&](std::size_t, std::size_t made) {
        if (made == 2) throw std::runtime_error("two");
        ++taken;
      };
      CHECK_THROWS_WITH_AS(side_by_side(1000, at_once, make, take), "two", std::runtime_error);
      CHECK(taken == begun - 1);
      CHECK(begun < 1000);
    }
}
