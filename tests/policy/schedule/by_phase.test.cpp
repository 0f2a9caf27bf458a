// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/by_phase.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/prompt_only.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

const every halve{.n = 1, .share = 0.5};

struct two_layer_schedules {
  static auto all() { return std::vector{by_phase{halve, stages{{2, 0.1}}}}; }
};
struct adaptive_prefill {
  static auto all() { return std::vector{by_phase{adaptive{}, halve}}; }
};
struct adaptive_decode {
  static auto all() { return std::vector{by_phase{halve, adaptive{}}}; }
};
struct nested {
  static auto all() { return std::vector{by_phase{prompt_only{adaptive{}}, by_phase{halve, adaptive{}}}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, two_layer_schedules, adaptive_prefill, adaptive_decode, nested);

TEST_CASE("by_phase uses one schedule for each phase") {
  const by_phase when{every{.n = 1, .share = 0.5}, every{.n = 1, .share = 0.25}};
  CHECK(when.keep({1, 8, 100, 100, phase::prefill}) == 50);
  CHECK(when.keep({1, 8, 100, 100, phase::decode}) == 25);
}

TEST_CASE("only the schedule that needs the scores sees them") {
  const std::vector<float> scores{0.0f, 1.0f, 0.0f, 2.0f};
  const adaptive sharpest{.mass = 0.5};
  CHECK(by_phase{sharpest, halve}.keep({1, 8, 4, 4, phase::prefill}, scores) == 1);
  CHECK(by_phase{sharpest, halve}.keep({1, 8, 4, 4, phase::decode}, scores) == 2);
  CHECK(by_phase{halve, sharpest}.keep({1, 8, 4, 4, phase::prefill}, scores) == 2);
  CHECK(by_phase{halve, sharpest}.keep({1, 8, 4, 4, phase::decode}, scores) == 1);
}

}  // namespace
