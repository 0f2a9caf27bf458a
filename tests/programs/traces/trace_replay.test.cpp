// SPDX-License-Identifier: MIT
// Tests replays of our own traces. c/planted_faults tests whole engines with planted faults.
#include "traces/trace_replay.hpp"
#include <fault.hpp>

#include <doctest/doctest.h>

#include "model/tiny_model.hpp"
#include "policies.hpp"

#include <lazyprune/model/transformer.hpp>
#include <lazyprune/registry/make_session.hpp>

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using namespace lazyprune::program;
using lazyprune_test::some_tokens, lazyprune_test::tiny_model;

constexpr layer_id depth = 4;
const char* const twice_halved = "lazyllm --stages 1:0.5,3:0.6";

policy_parts parts_of_text(const char* text) { return parts_of(parse_policy(text), depth, policies()); }

/// The trace of steps of so many tokens, as a replay under the policy `text` writes it, with or without a fault.
std::vector<step_trace> written(const model<faulty_reference>& net, const char* text = twice_halved,
                                hidden_fault fault = hidden_fault::none, const std::vector<std::size_t>& steps = {20, 1, 1, 1, 1, 1}) {
  std::vector<step_trace> tokens;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    tokens.push_back(
        {.step = s, .tokens = some_tokens(steps[s]), .layers = std::vector<layer_trace>(depth), .next = 0, .logits = {}, .margin = {}});
    tokens.back().tokens.back() = static_cast<token_id>(s);
  }
  return replay(net, tokens, parts_of_text(text), false, fault).steps;
}

}  // namespace

TEST_CASE("a replay under the policy gives the transformer's own trace") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  reference<double> plain;
  const auto same = lazyprune_test::tiny_model(plain);
  for (const char* policy : {twice_halved, "lazyllm --stages 1:0.5,3:0.6 --scorer accumulated_attention --decode kept"}) {
    CAPTURE(policy);
    const auto trace = written(net, policy, hidden_fault::none, {20, 1, 1, 1, 1, 1, 1, 9});
    workspace work(same, plain);
    sequence text(same, make_session(parse_policy(policy), {.layers = depth}, policies()));
    for (const step_trace& s : trace) {
      trace_recorder record(true);
      const auto logits = forward(work, text, s.tokens, phase_of(s), &record);
      CHECK(std::ranges::equal(logits, s.logits));
      for (layer_id l = 0; l < depth; ++l) {
        CHECK(record.steps().front().layers[l].active == s.layers[l].active);
        CHECK(record.steps().front().layers[l].rows == s.layers[l].rows);
        CHECK(record.steps().front().layers[l].revived == s.layers[l].revived);
        CHECK(s.layers[l].scores.size() == (l + 1 < depth ? s.layers[l].active.size() : 0));
      }
      CHECK(record.steps().front().margin == s.margin);
    }
  }
}

TEST_CASE("a forced replay keeps the tokens that the trace keeps, whatever the policy") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  const auto trace = written(net, "lazyllm --stages 1:0.4,2:0.7 --scorer key_norm");
  for (const char* text : {twice_halved, "dense", "lazyllm --store none", "lazyllm --scorer window_attention:window=4 --decode dense",
                           "lazyllm --scorer accumulated_attention --keep-last 5"}) {
    CAPTURE(text);
    const replayed_trace ours = replay(net, trace, parts_of_text(text), true);
    CHECK(!ours.stopped);
    REQUIRE(ours.steps.size() == trace.size());
    for (std::size_t s = 0; s < trace.size(); ++s) {
      CHECK(ours.steps[s].logits == trace[s].logits);
      for (layer_id l = 0; l < depth; ++l) CHECK(ours.steps[s].layers[l].rows == trace[s].layers[l].rows);
    }
  }
  auto impossible = trace;  // a token is left out of one layer and active in the next
  std::vector<layer_trace>& planted = impossible[1].layers;
  const position gone = planted[1].active.front();
  for (layer_trace& l : planted) l.scores.clear();
  for (auto* list : {&planted[1].active, &planted[1].rows, &planted[1].revived}) std::erase(*list, gone);
  if (planted[2].active.front() != gone) planted[2].active.insert(planted[2].active.begin(), gone);
  const replayed_trace stopped = replay(net, impossible, parts_of_text(twice_halved), true);
  REQUIRE(stopped.stopped);
  CHECK(stopped.steps.size() == 1);
  CHECK(stopped.stopped->first == 1);
}

TEST_CASE("each hidden fault is distinguished from the others") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  const auto sound = written(net);
  std::size_t told = 0;
  for (const hidden_fault fault : hidden_faults) {
    CAPTURE(name_of(fault));
    auto trace = written(net, twice_halved, fault);
    for (step_trace& s : trace)
      for (layer_trace& l : s.layers) l.scores.clear();
    if (std::ranges::equal(trace, sound, {}, &step_trace::logits, &step_trace::logits)) continue;  // the fault changes no logits here
    const trace_verdict verdict = check_trace(net, trace, parts_of_text(twice_halved), true, 1e-9);
    CHECK(verdict.logits);
    CHECK(!verdict.alike());
    CHECK(verdict.cause == fault);
    CHECK(verdict.text().find(std::string(name_of(fault))) != std::string::npos);
    ++told;
  }
  CHECK(told >= 8);
  CHECK(check_trace(net, written(net), parts_of_text(twice_halved), true).alike());
  CHECK(check_trace(net, written(net), parts_of_text(twice_halved), false).alike());
}

TEST_CASE("every scorer's own trace is alike, in prompts shorter and longer than its evidence window") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  std::vector<std::string> scorers{"calibrated_attention:window=3,block=2,probes=1.0.0.mean.max@-1/3.1.1.max.max@-1",
                                   "prompt_window_attention:window=5,kernel=1"};
  for (const auto& scorer : policies().scorers().entries()) scorers.push_back(scorer.name);
  for (const std::string& scorer : scorers) {
    CAPTURE(scorer);
    const std::string text = twice_halved + (" --keep-last 2 --scorer " + scorer);
    const auto trace = written(net, text.c_str(), hidden_fault::none, {20, 1, 1, 9, 4, 1});
    for (const bool forced : {true, false}) CHECK(check_trace(net, trace, parts_of_text(text.c_str()), forced).alike());
  }
}

TEST_CASE("a layer without scores is checked with the reference's scores, and the verdict says so") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  auto trace = written(net);
  for (step_trace& s : trace) s.layers[0].scores.clear();
  const trace_verdict verdict = check_trace(net, trace, parts_of_text(twice_halved), true);
  CHECK(verdict.alike());
  CHECK(verdict.by_trace == 6);
  CHECK(verdict.by_reference == 6);
  CHECK(verdict.text().find(
            "selection: follows from the trace's scores in 6 of 6 steps; 6 layers have no scores, so the reference's were used there") !=
        std::string::npos);
}

TEST_CASE("a trace of another model is refused") {
  faulty_reference backend;
  const auto net = tiny_model(backend);
  auto trace = written(net);
  trace[0].logits.pop_back();
  CHECK(error_of([&] { check_trace(net, trace, parts_of_text(twice_halved), true); }) == at("trace: logits", {"40", ", found 39"}));
  trace[0].layers.pop_back();
  CHECK(error_of([&] { check_trace(net, trace, parts_of_text(twice_halved), true); }) == at("trace: layers", {"4", ", found 3"}));
}
