// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/prompt_only.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

struct prompt_only_layer_values {
  static auto all() { return std::vector{prompt_only{every{.n = 1, .share = 0.5}}}; }
};
struct prompt_only_adaptive_values {
  static auto all() { return std::vector{prompt_only{adaptive{}}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, prompt_only_layer_values, prompt_only_adaptive_values);

TEST_CASE("prompt_only follows the inner schedule in the prompt, and then keeps everything") {
  const prompt_only when{every{.n = 2, .share = 0.5}};
  CHECK(when.keep({2, 8, 10, 10, phase::prefill}) == 5);
  CHECK(when.keep({3, 8, 10, 10, phase::prefill}) == everything);
  CHECK(when.keep({2, 8, 10, 10, phase::decode}) == everything);
}

TEST_CASE("prompt_only passes the scores to a schedule that sees them") {
  const prompt_only when{adaptive{.mass = 0.5}};
  const std::vector<float> scores{0.0f, 1.0f, 0.0f, 2.0f};
  CHECK(when.keep({1, 8, 4, 4, phase::prefill}, scores) == 1);
  CHECK(when.keep({1, 8, 4, 4, phase::decode}, scores) == everything);
}

}  // namespace
