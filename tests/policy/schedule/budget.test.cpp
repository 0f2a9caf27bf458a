// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/budget.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <fault.hpp>
#include "policy/contract.hpp"

using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

using namespace contract;

struct budget_values {
  static std::vector<budget> all() {
    return {budget({.after = 0, .tokens = 7}), budget({.after = 2, .tokens = 1}), budget({.after = 2, .cost = 0.5}),
            budget({.after = 5, .cost = 1e-9}), budget({.after = 0, .cost = 1.0})};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, budget_values);

TEST_CASE("a budget of tokens prunes once, after `after` layers") {
  const budget when({.after = 4, .tokens = 512});
  CHECK(when.keep({3, 32, 1000, 1000, phase::prefill}) == everything);
  CHECK(when.keep({4, 32, 1000, 1000, phase::prefill}) == 512);
  CHECK(when.keep({5, 32, 512, 1000, phase::prefill}) == everything);
  CHECK(when.keep({4, 32, 100, 1000, phase::decode}) == 100);
}

TEST_CASE("a budget of cost keeps the fewest tokens that use up the budget") {
  CHECK(budget({.after = 8, .cost = 0.5}).keep({8, 32, 1200, 1200, phase::prefill}) == 400);  // 8 * 1200 + 24 * 400 = half of 32 * 1200
  for (std::uint64_t percent = 1; percent <= 100; percent += 3)
    for (layer_id layers = 1; layers < 24; ++layers)
      for (layer_id after = 0; after < layers; ++after)
        for (std::uint64_t n = 1; n < 200; n += 11) {
          const std::size_t keep =
              budget({.after = after, .cost = static_cast<double>(percent) / 100}).keep({after, layers, n, n, phase::prefill});
          const auto spends = [&](std::uint64_t k) { return 100 * (after * n + (layers - after) * k) >= percent * layers * n; };
          REQUIRE(keep >= 1);
          REQUIRE(keep <= n);
          REQUIRE(spends(keep));
          REQUIRE((keep == 1 || !spends(keep - 1)));
        }
}

TEST_CASE("a budget needs exactly one of tokens and cost") {
  const auto fault = [](const budget_target& target) { return error_of([&] { budget{target}; }); };
  CHECK(fault({.after = 8}) == at("budget"));
  CHECK(fault({.after = 8, .tokens = 5, .cost = 0.5}) == at("budget"));
  CHECK_THROWS_AS(static_cast<void>(budget_target{.after = 8, .tokens = 0}), error);
  CHECK_THROWS_AS(static_cast<void>(budget_target{.after = 8, .cost = 0.0}), error);
}

}  // namespace
