// SPDX-License-Identifier: MIT
#include "traces/trace_check.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "fault.hpp"
#include "policies.hpp"

#include <lazyprune/registry/make_session.hpp>

namespace {

using namespace lazyprune;
using namespace lazyprune::program;
using lazyprune_test::at;
using lazyprune_test::error_of;
using trace = std::vector<step_trace>;

constexpr layer_id layers = 5;

float noise(std::size_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
  return static_cast<float>(x - std::floor(x));
}

policy_parts parts(const char* text) { return parts_of(parse_policy(text), layers, policies()); }
const char* const lazy = "lazyllm --stages 2:0.5,3:0.5";

/// The trace of a correct engine: a prompt of 12 tokens, then steps of 1, 1, 3 and 1 tokens. Every layer has scores for its active tokens.
trace sound(const char* text = lazy) {
  any_session session = make_session(parse_policy(text), {.layers = layers}, policies());
  trace steps;
  for (const std::size_t tokens : {12u, 1u, 1u, 3u, 1u}) {
    step_trace& s = steps.emplace_back();
    s.step = steps.size() - 1;
    s.tokens.resize(tokens);
    auto step = session.begin({tokens, phase_of(s)});
    for (layer_id l = 0; l < layers; ++l) {
      const layer_plan& plan = step.enter(l);
      layer_trace& seen = s.layers.emplace_back();
      seen.active.assign(plan.active.begin(), plan.active.end());
      seen.rows.assign(plan.rows.begin(), plan.rows.end());
      for (std::size_t i = 0; i < plan.rows.size(); ++i)
        if (plan.sources[i].from == row_source::origin::stored) seen.revived.push_back(plan.rows[i]);
      for (const position t : plan.active) seen.scores.push_back(noise(t + 100 * l + 1000 * s.step));
      step.leave(step.wants_scores() ? evidence(attention_view{seen.scores.data(), 1, seen.scores.size(), plan.active}) : evidence{});
    }
    step.finish();
  }
  return steps;
}

struct checked_trace {
  std::optional<plan_difference> found;
  std::size_t steps;
};

checked_trace check(const trace& t, const char* text = lazy) {
  const scores_of_layer scores = [&](std::size_t step, layer_id layer) -> std::span<const float> { return t[step].layers[layer].scores; };
  checked_trace result;
  result.found = first_plan_difference(t, parts(text), layers, scores, scores, result.steps);
  return result;
}

void erase(std::vector<position>& list, position t) { std::erase(list, t); }
void insert(std::vector<position>& list, position t) { list.insert(std::ranges::lower_bound(list, t), t); }

/// Changes the trace of a layer as if the engine had left out token `t`.
void drop_for_good(layer_trace& layer, position t) {
  layer.scores.erase(layer.scores.begin() + (std::ranges::lower_bound(layer.active, t) - layer.active.begin()));
  for (auto* list : {&layer.active, &layer.rows, &layer.revived}) erase(*list, t);
}
/// Changes the trace of a layer as if the engine had added token `t` to the active tokens.
void take_in(layer_trace& layer, position t) {
  layer.scores.insert(layer.scores.begin() + (std::ranges::lower_bound(layer.active, t) - layer.active.begin()), 0.0f);
  insert(layer.active, t);
}

}  // namespace

TEST_CASE("a correct engine's trace follows from the scores in the trace, under every policy") {
  for (const char* text : {lazy, "dense", "lazyllm --stages 2:0.4 --store none", "streaming --schedule budget:after=0,tokens=6",
                           "lazyllm --schedule adaptive:mass=0.5 --selector blocks:size=2 --keep-first 2", "lazyllm --decode dense"}) {
    CAPTURE(text);
    const checked_trace result = check(sound(text), text);
    CHECK(!result.found);
    CHECK(result.steps == 5);
  }
}

TEST_CASE("the check ends at a layer whose scores are needed but not known") {
  trace t = sound();
  t[2].layers[1].scores.clear();
  const checked_trace result = check(t);
  CHECK(!result.found);
  CHECK(result.steps == 2);
}

TEST_CASE("the first fault is reported with its name, place and tokens") {
  const auto fault = [](auto&& plant) {
    trace t = sound();
    plant(t);
    const checked_trace result = check(t);
    REQUIRE(result.found);
    return *result.found;
  };
  const plan_difference early = fault([](trace& t) { drop_for_good(t[1].layers[0], 3); });
  CHECK(early.step == 1);
  CHECK(early.layer == 0);
  CHECK(early.fault == plan_fault::dropped_early_key);
  CHECK(early.missing == std::vector<position>{3});
  CHECK(early.extra.empty());
  CHECK(std::isnan(early.margin));
  CHECK(!early.scores_after);
  CHECK(early.text() ==
        "step 1, layer 0: a dropped early key\n"
        "  positions 3 (1) are left out: this layer has their keys, and nothing is pruned before it\n");

  const plan_difference twice = fault([](trace& t) { insert(t[2].layers[1].rows, 5); });
  CHECK(twice.fault == plan_fault::computed_twice);
  CHECK(twice.missing.empty());
  CHECK(twice.extra == std::vector<position>{5});
  CHECK(twice.text() == "step 2, layer 1: a token computed twice\n  positions 5 (1) are computed: this layer has their keys\n");

  const trace whole = sound();
  std::size_t step = 1;
  while (whole[step].layers[2].revived.empty()) ++step;
  const position back = whole[step].layers[2].revived.front();
  const plan_difference revival = fault([&](trace& t) { drop_for_good(t[step].layers[2], back); });
  CHECK(revival.fault == plan_fault::lost_revival);
  CHECK(revival.missing == std::vector<position>{back});
  CHECK(fault([&](trace& t) {
          erase(t[step].layers[2].rows, back);
          erase(t[step].layers[2].revived, back);
        }).fault == plan_fault::lost_revival);
  CHECK(fault([&](trace& t) { erase(t[step].layers[2].revived, back); }).fault == plan_fault::other_rows);

  // A wrong token is kept instead of the right one.
  const std::vector<position>& kept = whole[0].layers[2].active;
  position other = 0;
  while (std::ranges::binary_search(kept, other)) ++other;
  const plan_difference chosen = fault([&](trace& t) {
    drop_for_good(t[0].layers[2], kept.front());
    take_in(t[0].layers[2], other);
  });
  CHECK(chosen.step == 0);
  CHECK(chosen.layer == 2);
  CHECK(chosen.fault == plan_fault::other_selection);
  CHECK(chosen.missing == std::vector<position>{kept.front()});
  CHECK(chosen.extra == std::vector<position>{other});
  CHECK(chosen.margin > 0);
  CHECK(chosen.text().find("  margin of the selection by the scores: ") != std::string::npos);
}

TEST_CASE("a selection by the scores of another layer is recognized") {
  trace t = sound();
  const trace whole = sound();
  const auto kept = best_positions(whole[0].layers[1].active, whole[0].layers[0].scores, 6);
  t[0].layers[2] = {kept, kept, {}, std::vector<float>(6)};
  const checked_trace result = check(t);
  REQUIRE(result.found);
  CHECK(result.found->fault == plan_fault::scores_of_another_layer);
  CHECK(result.found->scores_after == layer_id{0});
  CHECK(result.found->text().find("  the scores after layer 0 would keep exactly the tokens that the trace kept\n") != std::string::npos);
}

TEST_CASE("a policy that selects by positions alone may select before the first layer") {
  const char* const text = "custom --scorer recency --schedule budget:after=0,tokens=6 --store none";
  trace t = sound(text);
  CHECK(!check(t, text).found);
  drop_for_good(t[0].layers[0], t[0].layers[0].active.front());
  const checked_trace result = check(t, text);
  REQUIRE(result.found);
  CHECK(result.found->fault == plan_fault::other_selection);
}

TEST_CASE("a dropped early key is found even if other tokens were lost earlier") {
  const char* const text = "tova --schedule budget:after=2,tokens=8";
  trace t = sound(text);
  CHECK(!check(t, text).found);
  const std::vector<position>& first = t[2].layers[0].active;
  REQUIRE(first.size() < 14);  // some of the 14 tokens were lost earlier
  drop_for_good(t[2].layers[0], first.front());
  const checked_trace result = check(t, text);
  REQUIRE(result.found);
  CHECK(result.found->step == 2);
  CHECK(result.found->fault == plan_fault::dropped_early_key);
}

TEST_CASE("a malformed trace is refused") {
  const auto refused = [](trace t) { return error_of([&] { check(t); }); };
  trace t = sound();
  CHECK(refused({}) == at("trace"));
  t[1].step = 4;
  CHECK(refused(t) == at("trace: step", {"1", ", found 4"}));
  t = sound();
  t[2].layers.pop_back();
  CHECK(refused(t) == at("trace: layers", {"5", ", found 4"}));
  t = sound();
  t[1].layers[2].rows.push_back(40000000);
  CHECK(refused(t) == at("trace: step 1, layer 2"));
  t = sound();
  t[1].layers[0].active.push_back(13);
  CHECK(refused(t) == at("trace: step 1, layer 0", {"13", ", found 13"}));
  t = sound();
  std::swap(t[0].layers[1].active[0], t[0].layers[1].active[1]);
  CHECK(refused(t) == at("trace: step 0, layer 1"));
  t = sound();
  t[0].layers[1].scores.pop_back();
  CHECK(refused(t) == at("trace: step 0, layer 1", {"12", ", found 11"}));
  t = sound();
  t[3].tokens.clear();
  CHECK(refused(t) == at("trace: tokens"));
}
