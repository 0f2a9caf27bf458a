// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/at_least.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/any_schedule.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

struct at_least_layer_values {
  static auto all() { return std::vector{at_least{every{.n = 2, .share = 0.5}, 0}, at_least{every{.n = 2, .share = 0.5}, 64}}; }
};
struct at_least_adaptive_values {
  static auto all() { return std::vector{at_least{adaptive{.from = 3}, 9}}; }
};
struct at_least_chosen_values {
  static auto all() { return std::vector{at_least{any_schedule(adaptive{.from = 3}), 9}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, at_least_layer_values, at_least_adaptive_values, at_least_chosen_values);

TEST_CASE("at_least keeps everything while too few tokens are known; the number of active tokens does not matter") {
  const at_least when{every{.n = 2, .share = 0.5}, 100};
  CHECK(when.keep({2, 8, 99, 99, phase::prefill}) == everything);
  CHECK(when.keep({2, 8, 10, 100, phase::prefill}) == 5);
  CHECK(when.keep({3, 8, 100, 100, phase::decode}) == everything);
  CHECK(when.first(phase::prefill, 8) == 2);  // `first` does not depend on the sequence's length
}

TEST_CASE("at_least passes the scores to a schedule that sees them") {
  const at_least when{adaptive{.mass = 0.5}, 4};
  const std::vector<float> scores{0.0f, 1.0f, 0.0f, 2.0f};
  CHECK(when.keep({1, 8, 4, 4, phase::prefill}, scores) == 1);
  CHECK(when.keep({1, 8, 4, 3, phase::prefill}, scores) == everything);
}

}  // namespace
