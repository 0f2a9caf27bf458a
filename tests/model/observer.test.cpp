// SPDX-License-Identifier: MIT
#include <lazyprune/model/observer.hpp>

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/transformer.hpp>

#include <doctest/doctest.h>

#include <string>

#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::begin, lazyprune_test::some_tokens, lazyprune_test::tiny_config, lazyprune_test::tiny_model;

namespace {

/// Writes down what it is told, a letter each: b(egin), [ ] a layer, a part's letter and ), l(ogits), e(nd).
struct told final : step_observer {
  std::string events;
  std::size_t stops_at = 1000;  // layers begun
  std::size_t layers = 0;

  bool stops() override { return layers == stops_at; }
  void step_begins(std::span<const token_id> tokens) override { events += "b" + std::to_string(tokens.size()); }
  void layer_begins(const layer_plan&) override {
    events += '[';
    ++layers;
  }
  void layer_ends(const layer_end&) override { events += ']'; }
  void part_begins(step_part part) override { events += "pmal"[static_cast<std::size_t>(part)]; }
  void part_ends(step_part) override { events += ')'; }
  void logits(std::span<const double> logits) override { events += "L" + std::to_string(logits.size()); }
  void step_ends(const any_session& session) override { events += "e" + std::to_string(session.known()); }
};

using backend_type = reference<double>;

}  // namespace

TEST_CASE("what an observer is told of a step, in order; a step that is stopped has no end") {
  backend_type backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<backend_type> work(net, backend);
  auto text = begin(net, dense());
  told all;
  forward(work, text, some_tokens(5), phase::prefill, &all);
  CHECK(all.events == "b5p)[m)a)p)m)]p)[m)a)p)m)]l)L40e5");
  all = {};
  all.stops_at = 1;
  CHECK(forward(work, text, some_tokens(1), phase::decode, &all).empty());
  CHECK(all.events == "b1p)[m)a)p)m)]");
  CHECK_THROWS_WITH_AS(forward(work, text, some_tokens(1), phase::decode), doctest::Contains("session: begin"), error);
  text.clear();
  CHECK_NOTHROW(forward(work, text, some_tokens(1), phase::prefill));
}

TEST_CASE("several are told the same; any of them can end the step") {
  backend_type backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<backend_type> work(net, backend);
  auto text = begin(net, dense());
  told one, two;
  step_observers both{&one, nullptr, &two};
  forward(work, text, some_tokens(5), phase::prefill, &both);
  CHECK(one.events == two.events);
  CHECK(one.layers == 2);
  two.stops_at = 3;
  CHECK(forward(work, text, some_tokens(1), phase::decode, &both).empty());
  CHECK(one.layers == 3);
}

TEST_CASE("an observer changes nothing: the same bits with and without") {
  backend_type backend{execution{}};
  const auto net = tiny_model(backend);
  const lazyprune::policy policy = lazyllm(stages{{1, 0.5}, {3, 0.5}});
  const auto tokens = some_tokens(40);
  workspace<backend_type> work(net, backend);
  auto seen = begin(net, policy), unseen = begin(net, policy);
  trace_recorder recorder(true);
  step_timer timer;
  memory_watch memory;
  step_observers all{&recorder, &timer, &memory};
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = std::span(tokens).subspan(done, done == 0 ? 30 : 1);
    const phase when = done == 0 ? phase::prefill : phase::decode;
    const auto logits = forward(work, seen, now, when, &all);
    const std::vector<double> expected(logits.begin(), logits.end());
    REQUIRE(std::ranges::equal(forward(work, unseen, now, when), expected));
    REQUIRE(recorder.steps().back().logits == expected);
    REQUIRE(recorder.steps().back().next == greedy(std::span<const double>(expected)));
    REQUIRE(std::ranges::equal(recorder.steps().back().tokens, now));
    done += now.size();
  }
  REQUIRE(recorder.steps().size() == 11);
  std::size_t rows = 0, revived = 0;
  for (std::size_t s = 0; s < 11; ++s) {
    const step_trace& step = recorder.steps()[s];
    CHECK(step.step == s);
    CHECK(step.layers.size() == 4);
    CHECK(step.margin.size() == 3);
    for (const layer_trace& layer : step.layers) {
      rows += layer.rows.size();
      revived += layer.revived.size();
    }
  }
  CHECK(rows == seen.session().stats().rows);
  CHECK(revived == seen.session().stats().revived);
  CHECK(recorder.steps().front().layers[1].active.size() == 15);

  CHECK(memory.most().kv == seen.kv().bytes());
  CHECK(memory.most().store == seen.stored_rows().bytes());  // the reference's only grows
  CHECK(memory.most().together == memory.most().kv + memory.most().store);
  CHECK(memory.most().total() == memory.most().together);
  for (const double seconds : {timer.seconds().policy, timer.seconds().moving, timer.seconds().attention, timer.seconds().logits})
    CHECK(seconds > 0);
}

TEST_CASE("the most of memory, part by part and together") {
  memory_watch memory;
  memory.layer_ends({.layer = 0, .layers = 3, .margin = 0, .kv_bytes = 10, .stored_bytes = 50});
  memory.layer_ends({.layer = 1, .layers = 3, .margin = 0, .kv_bytes = 40, .stored_bytes = 30});
  memory.layer_ends({.layer = 2, .layers = 3, .margin = 0, .kv_bytes = 60, .stored_bytes = 5});
  CHECK(memory.most().kv == 60);
  CHECK(memory.most().store == 50);
  CHECK(memory.most().together == 70);
}

TEST_CASE("a recorder writes down finished steps only") {
  backend_type backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<backend_type> work(net, backend);
  auto text = begin(net, dense());
  trace_recorder recorder;
  told other;
  step_observers both{&recorder, &other};
  forward(work, text, some_tokens(3), phase::prefill, &both);
  other.stops_at = other.layers + 2;
  forward(work, text, some_tokens(1), phase::decode, &both);
  CHECK(recorder.steps().size() == 1);
  CHECK(recorder.steps().front().logits.empty());
  text.clear();
  other.stops_at = 1000;
  forward(work, text, some_tokens(2), phase::prefill, &both);
  REQUIRE(recorder.steps().size() == 2);
  CHECK(recorder.steps()[1].tokens.size() == 2);
  CHECK(recorder.steps()[1].layers.size() == 4);
  CHECK(recorder.take().size() == 2);
}
