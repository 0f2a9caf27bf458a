// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/prompt_sets.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/recency.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/session/session.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

struct prompt_sets_layer_values {
  static auto all() { return std::vector{prompt_sets{every{.n = 1, .share = 0.5}}}; }
};
struct prompt_sets_adaptive_values {
  static auto all() { return std::vector{prompt_sets{adaptive{}}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, prompt_sets_layer_values, prompt_sets_adaptive_values);

TEST_CASE("prompt_sets follows the inner schedule in the prompt, and then keeps the tokens that have keys") {
  const prompt_sets when{stages{{2, 0.5}, {5, 0.5}}};
  CHECK(when.keep({2, 8, 10, 10, phase::prefill}) == 5);
  CHECK(when.keep({3, 8, 10, 10, phase::prefill}) == everything);
  CHECK(when.keep({1, 8, 10, 10, phase::decode}) == everything);
  CHECK(when.keep({2, 8, 10, 10, phase::decode}) == all_with_keys);
  CHECK(when.keep({3, 8, 10, 10, phase::decode}) == all_with_keys);
  CHECK(when.first(phase::decode, 8) == 2);
  CHECK(!when.prunes_after(3, phase::prefill, 8));
  CHECK(!when.prunes_after(2, phase::decode, 8));  // no scores are needed
}

TEST_CASE("prompt_sets passes the scores to a schedule that sees them") {
  const prompt_sets when{adaptive{.mass = 0.5}};
  const std::vector<float> scores{0.0f, 1.0f, 0.0f, 2.0f};
  CHECK(when.keep({1, 8, 4, 4, phase::prefill}, scores) == 1);
  CHECK(when.keep({1, 8, 4, 4, phase::decode}, scores) == all_with_keys);
}

TEST_CASE("after the prompt, each layer keeps the prompt's set and the new tokens; the next prompt brings tokens back") {
  session turn{policy{recency{}, prompt_sets{stages{{1, 0.5}}}, top_k{}, keep_all{}}, {.layers = 2}};
  const auto active = [&](std::size_t tokens, phase when) {
    auto step = turn.begin({tokens, when});
    std::vector<position> last;
    for (layer_id l = 0; l < 2; ++l) {
      const layer_plan& plan = step.enter(l);
      last.assign(plan.active.begin(), plan.active.end());
      step.leave();
    }
    step.finish();
    return last;
  };
  CHECK(active(4, phase::prefill) == std::vector<position>{2, 3});
  CHECK(active(1, phase::decode) == std::vector<position>{2, 3, 4});
  CHECK(active(1, phase::decode) == std::vector<position>{2, 3, 4, 5});
  CHECK(turn.stats().revived == 0);
  CHECK(active(6, phase::prefill) == std::vector<position>{6, 7, 8, 9, 10, 11});
  CHECK(active(1, phase::decode) == std::vector<position>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

}  // namespace
