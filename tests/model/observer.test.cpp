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

/// Records each call as a character. A step begins with b, a chunk with c, and either ends with e. A layer begins with [ and ends with ]. A
/// section begins with the first letter of its name and ends with ). The logits are L. A count follows each b and c (new tokens), e (known
/// tokens) and L (logits).
struct told final : step_observer {
  std::string events;
  std::size_t stops_at = 1000;  // stops when this many layers have begun
  std::size_t layers = 0;

  bool stops() override { return layers == stops_at; }
  void step_begins(std::span<const token_id> tokens, std::size_t outputs) override {
    events += (outputs > 0 ? "b" : "c") + std::to_string(tokens.size());
  }
  void layer_begins(const layer_plan&) override {
    events += '[';
    ++layers;
  }
  void layer_ends(const layer_end&) override { events += ']'; }
  void section_begins(step_section part) override { events += "pmalnqrogd"[static_cast<std::size_t>(part)]; }
  void section_ends(step_section) override { events += ')'; }
  void logits(std::span<const double> logits) override { events += "L" + std::to_string(logits.size()); }
  void step_ends(const any_session& session) override { events += "e" + std::to_string(session.known()); }
};

}  // namespace

TEST_CASE("the calls of an observer during a step, in order; a stopped step has no end") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, dense());
  told all;
  forward(work, seq, some_tokens(5), phase::prefill, &all);
  CHECK(all.events ==
        "b5p)[m)n)q)r)q)r)a)o)n)g)d)p)m)]p)[m)n)q)r)n)q)r)a)o)n)g)d)p)m)]l)L40e5");  // the last layer norms its output row again
  all = {};
  all.stops_at = 1;
  CHECK(forward(work, seq, some_tokens(1), phase::decode, &all).empty());
  CHECK(all.events == "b1p)[m)n)q)r)q)r)a)o)n)g)d)p)m)]");
  CHECK(seq.known() == 5);  // the step is abandoned
  all = {};
  forward(work, seq, some_tokens(1), phase::decode, &all);
  CHECK(all.events == "b1p)[m)n)q)r)q)r)a)o)n)g)d)p)m)]p)[m)n)q)r)q)r)a)o)n)g)d)p)m)]l)L40e6");
}

TEST_CASE("the calls of an observer during a chunk; in a batch, an observer gets only the calls for its own sequence") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, lazyllm(stages{{1, 0.5}})), other = begin(net, dense());
  const auto tokens = some_tokens(8);
  told mine, others;
  const sequence_step<reference<double>> steps[] = {{seq, std::span(tokens).first(5), phase::prefill, 0, &mine},
                                                    {other, std::span(tokens).first(3), phase::prefill, 2, &others}};
  REQUIRE(forward(work, steps));
  CHECK(mine.events == "c5p)[a)p)m)]e5");
  CHECK(others.events == "b3p)[a)p)m)]p)[m)n)q)r)n)q)r)a)o)n)g)d)p)m)]e3");

  trace_recorder recorder;
  const sequence_step<reference<double>> second{seq, std::span(tokens).subspan(5), phase::prefill, 1, &recorder};
  REQUIRE(forward(work, second));
  const auto logits = read_logits(work, 0);
  REQUIRE(recorder.steps().size() == 1);
  CHECK(recorder.steps().front().next == greedy(logits));

  memory_watch memory;
  auto waits = begin(net, lazyllm(stages{{1, 0.5}}));
  const sequence_step<reference<double>> chunk{waits, tokens, phase::prefill, 0, &memory};
  REQUIRE(forward(work, chunk));
  CHECK(memory.most().scratch == waits.waiting_rows().bytes());
  CHECK(memory.most().scratch > 0);
  CHECK(memory.most().total() == memory.most().kv + memory.most().scratch);
}

TEST_CASE("chunks and the step with the query make one record, whatever the sizes of the chunks; a stopped step leaves no record") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<double>> work(net, backend);
  const auto tokens = some_tokens(30);
  const auto policy = lazyllm(stages{{2, 0.5}, {3, 0.5}});
  trace_recorder whole(true), cut(true);
  auto seq = begin(net, policy), pieces = begin(net, policy);
  forward(work, seq, tokens, phase::prefill, &whole);
  told stopper;
  step_observers both{&cut, &stopper};
  const auto chunk = [&](std::size_t first, std::size_t count) {
    const sequence_step<reference<double>> step{pieces, std::span(tokens).subspan(first, count), phase::prefill, 0, &both};
    return forward(work, step);
  };
  REQUIRE(chunk(0, 11));
  stopper.stops_at = stopper.layers + 1;
  REQUIRE(!chunk(11, 12));
  CHECK(forward(work, pieces, std::span(tokens).subspan(11), phase::prefill, &both).empty());
  stopper.stops_at = 1000;
  REQUIRE(chunk(11, 1));
  CHECK(cut.steps().empty());
  forward(work, pieces, std::span(tokens).subspan(12), phase::prefill, &both);
  REQUIRE(cut.steps().size() == 1);
  CHECK(cut.steps().front().step == 0);
  CHECK(cut.steps().front().tokens == tokens);
  CHECK(cut.steps().front().layers == whole.steps().front().layers);
  CHECK(cut.steps().front().margin == whole.steps().front().margin);
  CHECK(cut.steps().front().logits == whole.steps().front().logits);
}

TEST_CASE("several observers get the same calls; each of them can stop the step") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, dense());
  told one, two;
  step_observers both{&one, nullptr, &two};
  forward(work, seq, some_tokens(5), phase::prefill, &both);
  CHECK(one.events == two.events);
  CHECK(one.layers == 2);
  two.stops_at = 3;
  CHECK(forward(work, seq, some_tokens(1), phase::decode, &both).empty());
  CHECK(one.layers == 3);
}

TEST_CASE("a step gives the same bits with and without observers") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend);
  const lazyprune::policy policy = lazyllm(stages{{1, 0.5}, {3, 0.5}});
  const auto tokens = some_tokens(40);
  workspace<reference<double>> work(net, backend);
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
  CHECK(memory.most().store >= seen.aux_cache().bytes());
  CHECK(memory.most().together <= memory.most().kv + memory.most().store);
  CHECK(memory.most().total() == memory.most().together);
  for (const double seconds : {timer.seconds().policy, timer.seconds().moving, timer.seconds().attention, timer.seconds().logits})
    CHECK(seconds > 0);
}

TEST_CASE("a memory_watch reports the largest memory of each kind, and the largest sum of keys, values and stored rows") {
  memory_watch memory;
  memory.layer_ends({.layer = 0, .layers = 3, .margin = 0, .kv_bytes = 10, .stored_bytes = 50});
  memory.layer_ends({.layer = 1, .layers = 3, .margin = 0, .kv_bytes = 40, .stored_bytes = 30});
  memory.layer_ends({.layer = 2, .layers = 3, .margin = 0, .kv_bytes = 60, .stored_bytes = 5, .waiting_bytes = 7});
  CHECK(memory.most().kv == 60);
  CHECK(memory.most().store == 50);
  CHECK(memory.most().together == 70);
  CHECK(memory.most().total() == 77);
}

TEST_CASE("the end of a layer names the probabilities that the scorer reads: rows of heads or of probes, times the active tokens") {
  struct pairs final : step_observer {
    std::vector<std::size_t> of_layer;
    void layer_ends(const layer_end& end) override { of_layer.push_back(end.scored_pairs); }
  };
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(4));
  workspace<reference<double>> work(net, backend);
  const auto of_prefill = [&](auto policy) {
    pairs seen;
    auto seq = begin(net, std::move(policy));
    forward(work, seq, some_tokens(12), phase::prefill, &seen);
    return seen.of_layer;
  };
  using counts = std::vector<std::size_t>;
  CHECK(of_prefill(dense()) == counts{0, 0, 0, 0});
  CHECK(of_prefill(lazyllm(stages{{1, 0.5}, {3, 0.5}})) == counts{net.config.n_heads * 12, 0, net.config.n_heads * 6, 0});
  const calibrated_attention probes{.window = 5, .chosen = calibration::read("2.0.0.last.max@1/2.0.1.mean.max@1/2.1.1.last.max@1")};
  CHECK(of_prefill(policy{probes, stages{{2, 0.5}}, top_k{}, keep_all{}}) == counts{2 * 5 * 12, 1 * 5 * 12, 0, 0});
}

TEST_CASE("a recorder keeps complete steps only") {
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend);
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, dense());
  trace_recorder recorder;
  told other;
  step_observers both{&recorder, &other};
  forward(work, seq, some_tokens(3), phase::prefill, &both);
  other.stops_at = other.layers + 2;
  forward(work, seq, some_tokens(1), phase::decode, &both);
  CHECK(recorder.steps().size() == 1);
  CHECK(recorder.steps().front().logits.empty());
  other.stops_at = 1000;
  forward(work, seq, some_tokens(2), phase::prefill, &both);
  REQUIRE(recorder.steps().size() == 2);
  CHECK(recorder.steps()[1].tokens.size() == 2);
  CHECK(recorder.steps()[1].layers.size() == 4);
  CHECK(recorder.take().size() == 2);
}

TEST_CASE("an observer may throw in any call before the step ends: the exception abandons the step, or all steps of a batch") {
  struct thrown {};
  struct throws_at final : step_observer {
    std::size_t left;
    explicit throws_at(std::size_t calls) : left(calls) {}
    void tell() {
      if (left-- == 0) throw thrown{};
    }
    void step_begins(std::span<const token_id>, std::size_t) override { tell(); }
    void layer_begins(const layer_plan&) override { tell(); }
    void layer_ends(const layer_end&) override { tell(); }
    void section_begins(step_section) override { tell(); }
    void section_ends(step_section) override { tell(); }
    bool wants_logits() const override { return true; }
    void logits(std::span<const double>) override { tell(); }
  };
  reference<double> backend{execution{}};
  const auto net = tiny_model(backend, tiny_config(2));
  workspace<reference<double>> work(net, backend);
  const auto tokens = some_tokens(6);
  auto seq = begin(net, lazyllm(stages{{1, 0.5}})), other = begin(net, dense());
  std::size_t calls = 0;
  for (;; ++calls) {
    CAPTURE(calls);
    throws_at observer(calls);
    const sequence_step<reference<double>> steps[] = {{other, tokens}, {seq, tokens, phase::prefill, 1, &observer}};
    try {
      REQUIRE(forward(work, steps));
      break;
    } catch (const thrown&) {
      REQUIRE(seq.known() + other.known() == 0);
      REQUIRE(seq.session().stats().steps + other.session().stats().steps == 0);
    }
  }
  CHECK(calls == 1 + 2 * 10 + 3);  // 1 for the beginning, 10 for each of two layers, 3 for the logits
  CHECK(seq.known() == 6);
}
