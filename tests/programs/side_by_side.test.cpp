// SPDX-License-Identifier: MIT
#include "../../examples/lazyprune/side_by_side.hpp"

#include <chrono>
#include <stdexcept>

#include <doctest/doctest.h>

TEST_CASE("each piece once, never more at once than were asked for") {
  for (const std::size_t at_once : {1u, 2u, 5u, 100u})
    for (const std::size_t n : {0u, 1u, 4u, 50u}) {
      CAPTURE(at_once);
      CAPTURE(n);
      std::vector<std::atomic<int>> calls(n);
      std::atomic<std::size_t> at_work{0}, most{0};
      side_by_side(n, at_once, [&](std::size_t i) {
        std::size_t now = ++at_work;
        for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        ++calls[i];
        --at_work;
      });
      for (const std::atomic<int>& call : calls) CHECK(call == 1);
      CHECK(most <= at_once);
    }
}

TEST_CASE("two are at work together") {
  std::atomic<int> at_work{0};
  std::atomic<bool> met{false};
  side_by_side(2, 2, [&](std::size_t) {
    ++at_work;
    for (int waits = 0; waits < 10'000 && !met; ++waits) {
      if (at_work == 2) met = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    --at_work;
  });
  CHECK(met);
}

TEST_CASE("one at a time goes in order, on the thread that asks") {
  std::vector<std::size_t> order;
  const auto here = std::this_thread::get_id();
  bool elsewhere = false;
  side_by_side(5, 1, [&](std::size_t i) {
    order.push_back(i);
    elsewhere |= std::this_thread::get_id() != here;
  });
  CHECK(order == std::vector<std::size_t>{0, 1, 2, 3, 4});
  CHECK_FALSE(elsewhere);
}

TEST_CASE("after a failure nothing is begun, and what is at work ends") {
  for (const std::size_t at_once : {1u, 4u}) {
    std::atomic<int> begun{0}, ended{0};
    const auto work = [&](std::size_t i) {
      ++begun;
      if (i == 2) throw std::runtime_error("two");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++ended;
    };
    CHECK_THROWS_WITH_AS(side_by_side(1000, at_once, work), "two", std::runtime_error);
    CHECK(ended == begun - 1);
    CHECK(begun < 1000);
  }
}
