// SPDX-License-Identifier: MIT
#include <lazyprune/session/session_state.hpp>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/session/any_session.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::error_of;

namespace {

constexpr layer_id layers = 4;

any_session made() { return any_session(lazyllm({{1, 0.5}, {3, 0.5}}), {.layers = layers}); }

/// Runs a step in which the last query attends most to every third token.
std::vector<std::vector<position>> run(any_session& s, const step_request& request) {
  std::vector<std::vector<position>> rows;
  auto step = s.begin(request);
  for (layer_id l = 0; l < step.layers(); ++l) {
    const layer_plan& plan = step.enter(l);
    rows.emplace_back(plan.rows.begin(), plan.rows.end());
    rows.emplace_back(plan.active.begin(), plan.active.end());
    std::vector<float> row(plan.active.size());
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = plan.active[i] % 3 == 0 ? 0.5f : 0.01f * static_cast<float>(plan.active[i]);
    if (step.wants_scores())
      step.leave(attention_view{row.data(), 1, row.size(), plan.active});
    else
      step.leave();
  }
  step.finish();
  return rows;
}

}  // namespace

TEST_CASE("a restored session goes on as the saved one, after a chunk, a prompt and a decode step") {
  any_session s = made();
  for (const step_request& request :
       {step_request{.tokens = 9, .outputs = 0}, step_request{.tokens = 4}, step_request{.tokens = 1, .phase = phase::decode}}) {
    run(s, request);
    const session_state saved = s.state();
    any_session restored = made(), original = s.clone();
    restored.restore(saved);
    CHECK(restored.state() == saved);
    CHECK(restored.stats() == original.stats());
    for (int i = 0; i < 3; ++i) {
      CHECK(run(restored, {.tokens = 1, .phase = phase::decode}) == run(original, {.tokens = 1, .phase = phase::decode}));
      CHECK(restored.state() == original.state());
    }
    restored.truncate(5);
    original.truncate(5);
    CHECK(run(restored, {.tokens = 6}) == run(original, {.tokens = 6}));
  }
}

TEST_CASE("a state that contradicts itself or does not fit is refused, and the session stays empty") {
  any_session s = made();
  run(s, {.tokens = 9, .outputs = 0});
  run(s, {.tokens = 4});
  const session_state saved = s.state();
  const auto refused = [&](const std::function<void(session_state&)>& change) {
    session_state changed = saved;
    change(changed);
    any_session restored = made();
    const std::string where = error_of([&] { restored.restore(changed); }).where;
    CHECK(restored.known() == 0);
    restored.restore(saved);  // still works
    return where;
  };
  CHECK(refused([](session_state& x) { x.layers = 5; }) == "session state: layers");
  CHECK(refused([](session_state& x) { x.stats.prefill_rows.pop_back(); }) == "session state: statistics");
  CHECK(refused([](session_state& x) { x.memory.assign(3, 0); }) == "session state: memory");
  CHECK(refused([](session_state& x) { x.queried_to = 14; }) == "session state: queried tokens");
  CHECK(refused([](session_state& x) { x.tokens[2].frontier = 5; }) == "session state: token 2");
  CHECK(refused([](session_state& x) { x.tokens[2] = {.frontier = 0, .hidden = hidden_state::stored}; }) == "session state: token 2");
  CHECK(refused([](session_state& x) { x.tokens[2] = {.frontier = 4, .hidden = hidden_state::waiting}; }) == "session state: token 2");
  CHECK(refused([](session_state& x) { x.tokens[2] = {.frontier = 2}; }) == "session state: token 2");
  CHECK(refused([](session_state& x) { x.tokens[2] = {.frontier = 2, .hidden = hidden_state::stored, .dropped_for_good = true}; }) ==
        "session state: token 2");
  // A score of a step is never NaN, and +inf would keep the token's row in any store.
  for (const float score : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    CHECK(refused([&](session_state& x) { x.tokens[2] = {.frontier = 2, .hidden = hidden_state::stored, .score = score}; }) ==
          "session state: token 2");
  CHECK(error_of([&] { s.restore(saved); }).where == "session state: session");
  any_session of_one_token = made();
  of_one_token.adopt(1);
  CHECK(error_of([&] { of_one_token.restore(saved); }).where == "session state: session");
}

TEST_CASE("a state without tokens belongs to a session that no query has read") {
  CHECK(session_state{}.tokens.empty());
  CHECK(session_state{}.queried_to == 0);
  CHECK(!session_state{}.queried);
}

TEST_CASE("a restored session has what the scorer remembers") {
  const auto remembering = [] {
    return any_session(policy{accumulated_attention{}, stages{{1, 0.5}, {3, 0.5}}, top_k{}, keep_all{}}, {.layers = layers});
  };
  any_session s = remembering();
  run(s, {.tokens = 9});
  const session_state saved = s.state();
  REQUIRE(std::ranges::any_of(saved.memory, [](float x) { return x > 0.0f; }));
  any_session restored = remembering();
  restored.restore(saved);
  CHECK(restored.state() == saved);
}

TEST_CASE("the error of a state names the adopted token that has no keys at all layers") {
  any_session s = made();
  run(s, {.tokens = 9, .outputs = 0});
  session_state saved = s.state();
  saved.queried_to = 9;
  any_session restored = made();
  CHECK(error_of([&] { restored.restore(saved); }) == lazyprune_test::at("session state: queried tokens", {"token 8 "}));
}
