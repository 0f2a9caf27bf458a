// SPDX-License-Identifier: MIT
#include <lazyprune/model/generator.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/random_source.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <fault.hpp>
#include "asked_sequences.hpp"
#include "tiny_model.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::many_asked;
using lazyprune_test::sequence_asked;
using lazyprune_test::unsupported;

namespace {

model_config tiny() {
  model_config c = lazyprune_test::tiny_config();
  c.max_positions = 64;
  return c;
}

/// A model and a policy to generate with.
struct bench {
  model_config config;
  reference<float> backend{execution{}};
  model<reference<float>> net;
  stages when;

  explicit bench(model_config c = tiny(), lazyprune::stages stages = {})
      : config(std::move(c)), net(load_model(backend, config, random_source(config, dtype::f32))), when(std::move(stages)) {}

  sequence<reference<float>> begin() const { return {net, any_session(lazyllm(when), {.layers = static_cast<layer_id>(config.layers)})}; }

  generation run(const std::vector<token_id>& prompt, const generation_options& options) {
    workspace<reference<float>> work(net, backend);
    auto seq = begin();
    return generate(work, seq, prompt, options);
  }
};

const std::vector<token_id> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

generation_options of_length(std::size_t n) {
  generation_options options;
  options.max_new = n;
  return options;
}

/// Stops a run after `layers` layers, counted over its steps.
struct ends_before final : step_observer {
  std::size_t left;
  explicit ends_before(std::size_t layers) : left(layers) {}
  bool stops() override { return left-- == 0; }
};

}  // namespace

TEST_CASE("length: as many tokens as asked for, but no more than the context holds") {
  bench b;
  CHECK(b.run(prompt, of_length(0)).tokens.empty());
  const auto five = b.run(prompt, of_length(5));
  CHECK(five.tokens.size() == 5);
  CHECK(five.reason == finish_reason::length);
  CHECK(five.decode_steps == 4);
  CHECK(five.cost.steps == 5);
  CHECK(five.cost.rows == (10 + 4) * 4);
  CHECK(five.share_prompt == 1.0);
  generation_options small = of_length(50);
  small.context = 12;
  CHECK(b.run(prompt, small).tokens.size() == 3);  // the last token is never read
  CHECK(b.run(prompt, of_length(100)).tokens.size() == 55);
}

TEST_CASE("an EOS token or the caller ends a sequence; EOS tokens can be ignored") {
  bench b;
  const auto free_run = b.run(prompt, of_length(6)).tokens;
  model_config c = tiny();
  c.eos = {free_run[2]};
  const auto first = static_cast<std::size_t>(std::ranges::find(free_run, free_run[2]) - free_run.begin()) + 1;
  bench ending(c);
  const auto ended = ending.run(prompt, of_length(6));
  CHECK(ended.reason == finish_reason::eos);
  CHECK(ended.tokens == std::vector<token_id>(free_run.begin(), free_run.begin() + static_cast<std::ptrdiff_t>(first)));
  generation_options options = of_length(6);
  options.ignore_eos = true;
  CHECK(ending.run(prompt, options).tokens == free_run);
  options.eos = {free_run[2]};
  CHECK(b.run(prompt, options).tokens == free_run);
  options.ignore_eos = false;  // EOS tokens in the options end a sequence, as those in the config do
  CHECK(b.run(prompt, options).reason == finish_reason::eos);
  CHECK(b.run(prompt, options).tokens == ended.tokens);
  options = of_length(6);

  std::vector<token_id> heard;
  options.on_token = [&](token_id t) {
    heard.push_back(t);
    return heard.size() < 3;
  };
  const auto stopped = b.run(prompt, options);
  CHECK(stopped.reason == finish_reason::stop);
  CHECK(stopped.tokens == heard);
  CHECK(heard.size() == 3);
}

TEST_CASE("forced tokens replace the generated ones, and override length and EOS") {
  model_config c = tiny();
  c.eos = {7};
  bench b(c);
  generation_options options = of_length(1);
  options.force = {7, 8, 9};
  options.trace_logits = true;
  const auto result = b.run(prompt, options);
  CHECK(result.tokens == options.force);
  REQUIRE(result.trace.size() == 3);
  CHECK(result.trace[0].tokens == prompt);
  CHECK(result.trace[1].tokens == std::vector<token_id>{7});
  CHECK(result.trace[2].tokens == std::vector<token_id>{8});  // 9 is never read
  for (const step_trace& step : result.trace) {
    CHECK(step.logits.size() == 40);
    CHECK(step.next == std::ranges::max_element(step.logits) - step.logits.begin());
    CHECK(step.layers.size() == 4);
    CHECK(step.margin.size() == 3);
  }
}

TEST_CASE("on_logits gets the logits of each step, also without a trace") {
  bench b;
  generation_options options = of_length(1);
  options.force = {7, 8, 9};
  options.trace_logits = true;
  const auto traced = b.run(prompt, options);
  options.trace_logits = false;
  std::vector<std::vector<double>> heard;
  options.on_logits = [&](std::span<const float> logits) { heard.emplace_back(logits.begin(), logits.end()); };
  std::vector<std::size_t> known;
  options.on_step = [&](const any_session& session) { known.push_back(session.known()); };
  CHECK(b.run(prompt, options).trace.empty());
  CHECK(known == std::vector<std::size_t>{10, 11, 12});
  REQUIRE(heard.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) CHECK(heard[k] == traced.trace[k].logits);
}

TEST_CASE("the costs of a pruned run: rows by layer, share of the prompt, revived rows, memory") {
  bench dense, pruned(tiny(), stages{{1, 0.5}, {3, 0.4}});
  std::vector<token_id> longer;
  for (token_id t = 0; t < 40; ++t) longer.push_back(t);
  const auto all = dense.run(longer, of_length(1)), some = pruned.run(longer, of_length(1));
  CHECK(all.cost.prefill_rows == std::vector<std::size_t>{40, 40, 40, 40});
  CHECK(some.cost.prefill_rows == std::vector<std::size_t>{40, 20, 20, 8});
  CHECK(some.share_prompt == doctest::Approx(88.0 / 160.0));
  CHECK(some.memory.store > 0);
  CHECK(all.memory.store == 0);
  const auto going_on = pruned.run(longer, of_length(8));
  CHECK(going_on.cost.rows <= going_on.cost.dense_rows);
  CHECK(going_on.share_prompt >= some.share_prompt);
  CHECK(pruned.run(longer, of_length(8)).tokens == going_on.tokens);  // a run can be repeated, because each run has a new sequence
}

TEST_CASE("a run can be stopped between two layers: the result then lacks the token of the stopped step") {
  bench b;
  generation_options options = of_length(5);
  options.trace = true;
  const auto whole = b.run(prompt, options);
  for (const std::size_t layers_done : {0u, 3u, 4u, 9u}) {  // the prefill and each decode step have 4 layers
    CAPTURE(layers_done);
    ends_before end(layers_done);
    options.observer = &end;
    const auto cut = b.run(prompt, options);
    const std::size_t steps = layers_done / 4;
    CHECK(cut.reason == finish_reason::stop);
    CHECK(cut.tokens == std::vector<token_id>(whole.tokens.begin(), whole.tokens.begin() + static_cast<std::ptrdiff_t>(steps)));
    CHECK(cut.trace.size() == steps);
    CHECK((cut.prefill_seconds > 0) == (steps > 0));
    std::size_t rows = 0;
    for (const step_trace& step : cut.trace)
      for (const layer_trace& layer : step.layers) rows += layer.rows.size();
    CHECK(cut.cost.rows == rows);  // those of the stopped step do not count
    CHECK(cut.cost.dense_rows == (steps > 0 ? 4 * (prompt.size() + steps - 1) : 0));
    CHECK(cut.cost.steps == steps);
  }
  options.observer = nullptr;
  CHECK(b.run(prompt, options).tokens == whole.tokens);  // nothing of the stopped runs stays
}

TEST_CASE("if a prompt in chunks is stopped or fails, all its chunks are taken back, and the prompt can be read again") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  std::vector<token_id> longer;
  for (token_id t = 0; t < 40; ++t) longer.push_back(t);
  generation_options options = of_length(3);
  options.chunk = 7;
  auto seq = b.begin();
  const std::vector<token_id> expected = generate(work, seq, longer, options).tokens;
  struct fails final : step_observer {
    std::size_t chunks_left = 3;
    void step_begins(std::span<const token_id>, std::size_t) override {
      if (--chunks_left == 0) throw std::bad_alloc();
    }
  };
  for (const bool by_stop : {true, false}) {
    ends_before end(9);  // 9 layers, over two or more chunks
    fails failure;
    auto other = b.begin();
    options.observer = by_stop ? static_cast<step_observer*>(&end) : &failure;
    if (by_stop)
      CHECK(generate(work, other, longer, options).reason == finish_reason::stop);
    else
      CHECK_THROWS_AS(generate(work, other, longer, options), std::bad_alloc);
    CHECK(other.known() == 0);
    options.observer = nullptr;
    CHECK(generate(work, other, longer, options).tokens == expected);
  }
}

TEST_CASE("a second turn continues the sequence: it has the logits of one long prompt, and its costs include the first turn") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  generation_options options;
  options.force = {7, 8, 9};
  options.trace_logits = true;
  const auto first = generate(work, seq, prompt, options);
  CHECK(seq.known() == prompt.size() + 2);  // the 9 is chosen but not read
  options.force = {5, 6};
  const std::vector<token_id> turn{9, 1, 2, 3};
  const auto second = generate(work, seq, turn, options);
  CHECK(seq.known() == prompt.size() + 2 + turn.size() + 1);
  CHECK(second.tokens == options.force);
  CHECK(second.share_prompt == 1.0);
  CHECK(second.cost.steps == 5);
  CHECK(second.cost.rows == seq.known() * b.config.layers);
  CHECK(second.memory.kv == seq.kv().bytes());
  REQUIRE(second.trace.size() == 2);
  CHECK(second.trace[0].tokens == turn);
  CHECK(second.trace[0].layers.front().active.size() == prompt.size() + 2 + turn.size());

  std::vector<token_id> whole = prompt;
  whole.insert(whole.end(), {7, 8, 9, 1, 2, 3});
  CHECK(b.run(whole, options).trace.back().logits == second.trace.back().logits);

  const at long_turn("prompt: length", {"64", ", found 77"}, error_code::no_room);
  CHECK(error_of([&] { generate(work, seq, std::vector<token_id>(60, 1), options); }) == long_turn);
  const std::size_t known = seq.known();
  CHECK_NOTHROW(generate(work, seq, turn, options));  // a refused request changes nothing
  CHECK(seq.known() == known + turn.size() + 1);
}

TEST_CASE("in a pruned conversation, each turn reports the computed share of its own prompt") {
  bench b(tiny(), stages{{1, 0.5}, {3, 0.4}});
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  std::vector<token_id> longer;
  for (token_id t = 0; t < 20; ++t) longer.push_back(t);
  CHECK(generate(work, seq, longer, of_length(1)).share_prompt == doctest::Approx(44.0 / 80.0));  // layers with 20, 10, 10 and 4 rows
  const auto second = generate(work, seq, longer, of_length(1));
  CHECK(second.share_prompt == share_computed(seq.session().tokens(), 20, 20, 4));
  CHECK(second.share_prompt < 1.0);
}

TEST_CASE("a prompt read in chunks equals a prompt read at once: one record in the trace, the same rows") {
  bench b(tiny(), stages{{2, 0.5}, {3, 0.4}});
  std::vector<token_id> longer;
  for (token_id t = 0; t < 40; ++t) longer.push_back(t);
  generation_options options = of_length(6);
  options.trace_logits = true;
  const auto whole = b.run(longer, options);
  REQUIRE(whole.trace.size() == 6);
  for (const std::size_t chunk : {1u, 2u, 3u, 7u, 19u, 37u, 38u, 39u, 40u, 100u}) {
    CAPTURE(chunk);
    options.chunk = chunk;
    auto cut = b.run(longer, options);
    CHECK(cut.tokens == whole.tokens);
    CHECK(cut.trace == whole.trace);
    CHECK(cut.share_prompt == whole.share_prompt);
    CHECK((cut.cost.steps > whole.cost.steps) == (chunk <= 37));  // the last chunk has three tokens or more
    cut.cost.steps = whole.cost.steps;
    CHECK(cut.cost == whole.cost);
  }
}

TEST_CASE("forks of a prompt's beginning, read in chunks or at once, continue like a run that reads the whole prompt") {
  bench b(tiny(), stages{{2, 0.5}, {3, 0.4}});
  std::vector<token_id> longer;
  for (token_id t = 0; t < 40; ++t) longer.push_back(t);
  const auto whole = b.run(longer, of_length(6));
  for (const std::size_t chunk : {0u, 5u, 29u}) {
    CAPTURE(chunk);
    workspace<reference<float>> work(b.net, b.backend);
    auto seq = b.begin();
    CHECK(read_beginning(work, seq, std::span<const token_id>(longer).first(30), chunk));
    CHECK(seq.known() == 30);
    CHECK(seq.session().stats().rows == 60);  // only the first two of the four layers have computed the 30 tokens
    for (int answers = 0; answers < 2; ++answers) {
      auto answer = seq.fork();
      auto result = generate(work, answer, std::span<const token_id>(longer).subspan(30), of_length(6));
      CHECK(result.tokens == whole.tokens);
      CHECK(share_computed(answer.session().tokens(), 0, 40, 4) == whole.share_prompt);
      result.cost.steps = whole.cost.steps;
      CHECK(result.cost == whole.cost);
    }
  }
}

TEST_CASE("forks under different policies continue one beginning as if each had read it itself") {
  bench b(tiny(), stages{{2, 0.5}});
  std::vector<token_id> longer;
  for (token_id t = 0; t < 40; ++t) longer.push_back(t);
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  REQUIRE(read_beginning(work, seq, std::span<const token_id>(longer).first(33)));

  const session_options four{.layers = 4};
  const std::function<any_session()> policies[] = {
      [&] { return any_session(dense(), four); },
      [&] {
        return any_session(lazyllm({{2, 0.3}}), four);
      },
      [&] {
        return any_session(lazyllm({{3, 0.2}}), {.layers = 4, .max_tokens = 50});
      },
      [&] {
        return any_session(policy{last_query_attention{}, stages{{2, 0.5}, {3, 0.5}}, top_k{}, none{}}, four);
      },
      [&] {
        return any_session(policy{accumulated_attention{}, stages{{2, 0.4}}, top_k{}, keep_all{}}, four);
      },
      [&] {
        return any_session(policy{window_attention{.window = 4}, stages{{3, 0.4}}, top_k{}, bounded{5}}, four);
      },
  };
  for (const auto& policy_of : policies) {
    sequence<reference<float>> fork = seq.fork(policy_of()), alone(b.net, policy_of());
    auto shared = generate(work, fork, std::span<const token_id>(longer).subspan(33), of_length(6));
    const auto whole = generate(work, alone, longer, of_length(6));
    CHECK(shared.tokens == whole.tokens);
    CHECK(share_computed(fork.session().tokens(), 0, 40, 4) == whole.share_prompt);
    CHECK(shared.cost.steps == whole.cost.steps + 1);
    shared.cost.steps = whole.cost.steps;
    CHECK(shared.cost == whole.cost);
  }
  CHECK(seq.known() == 33);

  const auto said_by = [](const sequence<reference<float>>& from, any_session under) {
    return error_of([&] { from.fork(std::move(under)); });
  };
  const auto said = [&](any_session under) { return said_by(seq, std::move(under)); };
  CHECK(said(any_session(lazyllm({{1, 0.5}}), four)) == at("session: take_over", {"token 0 after layer 2", "not 1"}));
  CHECK(said(any_session(dense(), {.layers = 3})) == at("session: take_over", {", found 4", "not 3"}));
  CHECK(said(any_session(dense(), {.layers = 4, .max_tokens = 32})) == at("session: take_over", {"32", ", found 33"}, error_code::no_room));
  CHECK(said(seq.session().clone()) == at("session: take_over", {", found 33"}));
  auto answered = seq.fork();
  generate(work, answered, std::span<const token_id>(longer).subspan(33), of_length(2));
  const at queried("session: take_over");
  CHECK(said_by(answered, any_session(lazyllm({{2, 0.5}}), four)) == queried);
  CHECK(said_by(answered, any_session(dense(), four)) == queried);
  CHECK(said_by(answered.fork(), any_session(dense(), four)) == queried);
  answered.clear();
  CHECK(said_by(answered, any_session(dense(), four)) == "no error");

  sequence<reference<float>> streaming(b.net, any_session(streaming_llm(2, 6), four));  // this policy drops tokens for good
  generate(work, streaming, longer, of_length(3));
  CHECK(said_by(streaming, any_session(dense(), four)) == queried);
}

namespace {

/// A model and a policy that prunes only the prompt, so that decode steps may have several tokens.
struct speculation_bench : bench {
  any_scorer scorer;

  explicit speculation_bench(model_config c = tiny(), any_scorer s = last_query_attention{}) : bench(std::move(c)), scorer(std::move(s)) {}

  sequence<reference<float>> begin() const {
    return {net, any_session(policy{scorer, prompt_only{stages{{1, 0.5}, {3, 0.4}}}, top_k{}, keep_all{}},
                             {.layers = static_cast<layer_id>(config.layers)})};
  }

  /// The result of a run, with the logits of the run and of a next turn. The last logits show whether drafts that were taken back have left
  /// something behind.
  struct outcome {
    generation run;
    std::vector<token_id> known;
    std::vector<std::vector<float>> logits;
    std::vector<token_id> heard;
  };
  outcome run(const std::vector<token_id>& asked, generation_options options, std::size_t stop_after = 1000) {
    outcome result;
    options.on_logits = [&](std::span<const float> row) { result.logits.emplace_back(row.begin(), row.end()); };
    options.on_token = [&](token_id t) {
      result.heard.push_back(t);
      return result.heard.size() < stop_after;
    };
    workspace<reference<float>> work(net, backend);
    auto seq = begin();
    result.run = generate(work, seq, asked, options);
    result.known.assign(seq.tokens().begin(), seq.tokens().end());
    if (seq.known() + 3 <= config.max_positions) {
      const std::vector<token_id> turn{3, 1, 2};
      const auto next = forward(work, seq, turn, phase::prefill);
      result.logits.emplace_back(next.begin(), next.end());
    }
    return result;
  }

  /// Compares a run with steps of up to `n` tokens and a run with steps of one token. Returns the former.
  generation check(const std::vector<token_id>& asked, generation_options options, std::size_t n, std::size_t stop_after = 1000) {
    const outcome plain = run(asked, options, stop_after);
    options.speculate = n;
    const outcome fast = run(asked, options, stop_after);
    CHECK(fast.run.tokens == plain.run.tokens);
    CHECK(fast.run.reason == plain.run.reason);
    CHECK(fast.run.share_prompt == plain.run.share_prompt);
    CHECK(fast.known == plain.known);
    CHECK(fast.heard == plain.heard);
    CHECK(fast.logits == plain.logits);
    CHECK(fast.run.accepted <= fast.run.drafted);
    CHECK(fast.run.decode_steps + fast.run.accepted == plain.run.decode_steps);
    CHECK(plain.run.drafted == 0);
    return fast.run;
  }
};

}  // namespace

TEST_CASE("a repeat penalty applies to the tokens of the prompt and to each chosen token, drafted or not") {
  speculation_bench b;
  const std::vector<token_id> repeated{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};
  generation_options options = of_length(30);
  const auto plain = b.check(repeated, options, 4);
  options.sampler.repeat_penalty = 1e6;
  const auto penalized = b.check(repeated, options, 4);
  CHECK(penalized.tokens != plain.tokens);
  options.sampler.repeat_penalty = 1.0;
  CHECK(b.check(repeated, options, 4).tokens == plain.tokens);
}

TEST_CASE("with drafts, a run generates the same tokens in fewer steps, and leaves the same sequence") {
  speculation_bench b;
  const std::vector<token_id> repeated{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};
  const auto none = b.check(repeated, of_length(40), 1);
  CHECK(none.drafted == 0);
  CHECK(none.decode_steps == 39);
  for (const std::size_t n : {2u, 3u, 5u, 16u, 100u}) {
    CAPTURE(n);
    CHECK(b.check(repeated, of_length(40), n).decode_steps < 39);
    for (const std::size_t length : {0u, 1u, 2u, 3u, 17u, 18u, 19u, 20u}) b.check(repeated, of_length(length), n);
    generation_options options = of_length(40);
    for (const std::size_t context : {19u, 20u, 21u, 30u, 31u, 32u, 33u, 64u}) {  // some contexts end in the middle of the drafts
      options.context = context;
      b.check(repeated, options, n);
    }
    options.context = 0;
    for (std::size_t stop_after = 1; stop_after < 24; ++stop_after) b.check(repeated, options, n, stop_after);
    options.force = {4, 5, 6, 7, 8, 1, 2, 9, 9, 9, 9, 3};
    CHECK(b.check(repeated, options, n).accepted > 0);
  }
}

namespace {

/// Runs all requests on one model, together or each alone. Records the tokens and the steps that each request's callbacks are told of.
template <tensor_backend Backend>
struct together_bench {
  model_config config = tiny();
  Backend backend{execution{}};
  model<Backend> net = load_model(backend, config, random_source(config, dtype::f32));
  std::vector<std::vector<token_id>> heard{};
  std::vector<std::size_t> steps{};

  std::vector<generation> run(bool together, std::size_t stop_after = 1000, step_observer* observer = nullptr) {
    std::vector<sequence_asked> all = many_asked();
    heard.assign(all.size(), {});
    steps.assign(all.size(), 0);
    std::vector<sequence<Backend>> seqs;
    std::vector<generation_request<Backend>> requests;
    seqs.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      seqs.emplace_back(net, std::move(all[i].session));
      all[i].options.on_token = [this, i, stop_after](token_id t) {
        heard[i].push_back(t);
        return heard[i].size() < stop_after;
      };
      all[i].options.on_step = [this, i](const any_session&) { ++steps[i]; };
      requests.push_back({seqs.back(), all[i].prompt, all[i].options});
    }
    all.front().options.observer = observer;
    workspace<Backend> work(net, backend);
    if (together) return generate(work, requests);
    std::vector<generation> results;
    for (const generation_request<Backend>& r : requests) results.push_back(generate(work, r.seq.get(), r.prompt, r.options.get()));
    return results;
  }

  void check() {
    for (const std::size_t stop_after : {1000u, 3u}) {
      CAPTURE(stop_after);
      const auto alone = run(false, stop_after);
      const auto heard_alone = std::exchange(heard, {});
      const auto steps_alone = std::exchange(steps, {});
      const auto all = run(true, stop_after);
      CHECK(heard == heard_alone);
      CHECK(steps == steps_alone);
      REQUIRE(all.size() == alone.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        CHECK(all[i].tokens == alone[i].tokens);
        CHECK(all[i].reason == alone[i].reason);
        CHECK(all[i].share_prompt == alone[i].share_prompt);
        CHECK(all[i].cost.rows == alone[i].cost.rows);
        CHECK(all[i].cost.prefill_rows == alone[i].cost.prefill_rows);
        CHECK(all[i].decode_steps == alone[i].decode_steps);
        CHECK(all[i].accepted == alone[i].accepted);
        CHECK(all[i].memory.together == alone[i].memory.together);
        CHECK((all[i].decode_seconds > 0) == (alone[i].decode_steps > 0));
        REQUIRE(all[i].trace.size() == alone[i].trace.size());
        for (std::size_t k = 0; k < all[i].trace.size(); ++k)
          for (layer_id l = 0; l < config.layers; ++l) {
            CHECK(all[i].trace[k].layers[l].active == alone[i].trace[k].layers[l].active);
            CHECK(all[i].trace[k].layers[l].rows == alone[i].trace[k].layers[l].rows);
          }
      }
    }
  }
};

}  // namespace

TEST_CASE("sequences that are generated together get the same tokens as alone, whatever their policies, lengths and options") {
  together_bench<reference<double>>().check();
  together_bench<cpu>().check();
}

TEST_CASE("an observer that stops a step ends all sequences that are generated together") {
  together_bench<reference<double>> b;
  const auto whole = b.run(true);
  ends_before end(2 * 4 + 2 * 4);  // two chunks and two decode steps, with four layers each, come before the stop
  const auto cut = b.run(true, 1000, &end);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    CAPTURE(i);
    const bool open = whole[i].decode_steps > 2;
    CHECK(cut[i].reason == (open ? finish_reason::stop : whole[i].reason));
    CHECK(cut[i].decode_steps == std::min<std::size_t>(whole[i].decode_steps, 2));
    CHECK(std::ranges::equal(cut[i].tokens, std::span(whole[i].tokens).first(cut[i].tokens.size())));
  }
}

TEST_CASE("one call cannot generate the same sequence twice") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  const generation_options options = of_length(4);
  const std::vector<generation_request<reference<float>>> twice{{seq, prompt, options}, {seq, prompt, options}};
  CHECK(error_of([&] { generate(work, twice); }) == at("sequences: number 1", {"of 0"}));
  CHECK(seq.known() == 0);
}

TEST_CASE("if one request is refused, no sequence changes") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin(), other = b.begin();
  const generation_options options = of_length(4);
  const std::vector<generation_request<reference<float>>> none_second{{seq, prompt, options}, {other, {}, options}};
  CHECK(error_of([&] { generate(work, none_second); }) == at("prompt: tokens"));
  CHECK(seq.known() == 0);
  CHECK(generate(work, std::span(none_second).first(0)).empty());
}

namespace {

/// Notes when a step begins and ends. Several of these observers share one string.
struct notes_steps final : step_observer {
  std::string& notes;
  char name;
  notes_steps(std::string& all, char own) : notes(all), name(own) {}
  void step_begins(std::span<const token_id>, std::size_t) override { (notes += name) += '('; }
  void step_ends(const any_session&) override { (notes += name) += ')'; }
};

/// Options for several continuations of one prompt.
std::vector<generation_options> many_alternatives(bool prunes) {
  std::vector<generation_options> all(6, of_length(9));
  all[1].force = {4, 3, 2, 1, 5, 6, 7, 8, 9, 10, 11, 12};
  all[2].sampler = {.temperature = 0.9, .top_k = 5, .top_p = 1, .min_p = 0};
  all[3].context = 21;
  all[4] = of_length(1);
  for (generation_options& each : all) each.trace = true;
  all[5].trace = false;
  all[5].speculate = prunes ? 0 : 4;
  return all;
}

template <tensor_backend Backend>
void check_alternatives(const stages& when, std::size_t turns_before) {
  const model_config config = tiny();
  Backend backend{execution{}};
  const model<Backend> net = load_model(backend, config, random_source(config, dtype::f32));
  workspace<Backend> work(net, backend);
  const auto begun = [&] {
    sequence<Backend> seq(net, any_session(lazyllm(when), {.layers = 4}));
    for (std::size_t i = 0; i < turns_before; ++i) generate(work, seq, prompt, of_length(3));
    return seq;
  };
  const std::vector<token_id> asked{9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 11, 12, 13, 14};
  for (const std::size_t chunk : {0u, 5u}) {
    CAPTURE(chunk);
    std::vector<generation_options> options = many_alternatives(!when.list().empty());
    for (generation_options& each : options) {
      each.chunk = chunk;
      if (each.context > 0) each.context += turns_before * 13;
    }
    sequence<Backend> seq = begun();
    const auto together = generate_alternatives(work, seq, asked, options);
    REQUIRE(together.size() == options.size());
    for (std::size_t i = 0; i < options.size(); ++i) {
      CAPTURE(i);
      sequence<Backend> other = begun();
      const generation alone = generate(work, other, asked, options[i]);
      CHECK(together[i].tokens == alone.tokens);
      CHECK(together[i].reason == alone.reason);
      CHECK(together[i].cost == alone.cost);
      CHECK(together[i].share_prompt == alone.share_prompt);
      CHECK(together[i].decode_steps == alone.decode_steps);
      CHECK(static_cast<double>(together[i].memory.together) ==
            doctest::Approx(static_cast<double>(alone.memory.together)).epsilon(0.01));  // a fork copies the block that it appends to
      CHECK(together[i].trace == alone.trace);
      CHECK(together[i].prefill_seconds > 0);
      if (i == 0) CHECK(std::ranges::equal(seq.tokens(), other.tokens()));
    }
  }
}

}  // namespace

TEST_CASE("alternatives after one prompt get the same tokens as alone, whatever their options") {
  for (const std::size_t turns_before : {0u, 1u}) {
    CAPTURE(turns_before);
    check_alternatives<reference<double>>({}, turns_before);
    check_alternatives<reference<double>>({{1, 0.5}, {3, 0.3}}, turns_before);
    check_alternatives<cpu>({{2, 0.3}}, turns_before);
  }
}

TEST_CASE("the prompt of alternatives is read once, and every observer is told of it") {
  bench b(tiny(), stages{{2, 0.5}});
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  std::string notes;
  notes_steps first(notes, 'a'), second(notes, 'b');
  std::vector<generation_options> options(2, of_length(1));
  options[0].observer = &first;
  options[1].observer = &second;
  CHECK(generate_alternatives(work, seq, prompt, options).size() == 2);
  CHECK(notes == "a(b(a)b)");
  CHECK(generate_alternatives(work, seq, prompt, {}).empty());
  CHECK(seq.known() == 10);
}

TEST_CASE("alternatives that are refused or stopped leave the sequence unchanged") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  auto seq = b.begin();
  std::vector<generation_options> options(2, of_length(3));
  options[1].max_new = 0;
  CHECK(error_of([&] { generate_alternatives(work, seq, prompt, options); }) == at("alternatives: number 1"));
  options[1].force.assign(60, 1);
  CHECK(error_of([&] { generate_alternatives(work, seq, prompt, options); }) ==
        at("forced tokens: length", {"64", ", found 69"}, error_code::no_room));
  CHECK(error_of([&] { generate_alternatives(work, seq, {}, options); }) == at("prompt: tokens"));
  CHECK(seq.known() == 0);
  options[1].force = {1, 2};
  ends_before end(2);
  options[1].observer = &end;
  for (const generation& stopped : generate_alternatives(work, seq, prompt, options)) {
    CHECK(stopped.tokens.empty());
    CHECK(stopped.reason == finish_reason::stop);
    CHECK(stopped.cost.rows + stopped.cost.dense_rows == 0);
  }
  CHECK(seq.known() == 0);
  options[1].observer = nullptr;
  CHECK(generate_alternatives(work, seq, prompt, options)[0].tokens == b.run(prompt, of_length(3)).tokens);
}

TEST_CASE("a sequence with drafts ends at its EOS") {
  speculation_bench b;
  generation_options options = of_length(20);
  options.sampler = {.temperature = 0.7, .top_k = 3, .top_p = 1, .min_p = 0};
  std::size_t accepted = 0;
  for (options.sampler.seed = 0; options.sampler.seed < 10; ++options.sampler.seed) {
    std::vector<token_id> asked = b.run(prompt, options).run.tokens;  // so that the next generation repeats earlier tokens
    asked.insert(asked.begin(), prompt.begin(), prompt.end());
    for (const token_id eos : b.run(asked, options).run.tokens) {
      CAPTURE(eos);
      model_config c = tiny();
      c.eos = {eos};
      speculation_bench ending(c);
      const auto run = ending.check(asked, options, 5);
      CHECK(run.reason == finish_reason::eos);
      CHECK(run.tokens.back() == eos);
      accepted += run.accepted;
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("random draws are the same with drafts: one draw for each kept token") {
  speculation_bench b;
  generation_options options = of_length(40);
  options.sampler = {.temperature = 0.7, .top_k = 3, .top_p = 1, .min_p = 0};
  std::size_t accepted = 0, refused = 0;
  for (options.sampler.seed = 0; options.sampler.seed < 30; ++options.sampler.seed) {
    const auto run = b.check(prompt, options, 2 + options.sampler.seed % 7);
    accepted += run.accepted;
    refused += run.drafted - run.accepted;
  }
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

TEST_CASE("a step with drafts can be stopped between two layers: its token and its drafts are then taken back") {
  speculation_bench b;
  generation_options options = of_length(30);
  const auto plain = b.run(prompt, options).run.tokens;
  options.speculate = 6;
  const auto whole = b.run(prompt, options).run;
  REQUIRE(whole.accepted > 0);
  for (std::size_t layers_done = 0; layers_done < 4 * whole.decode_steps; ++layers_done) {
    CAPTURE(layers_done);
    ends_before end(layers_done);
    options.observer = &end;
    workspace<reference<float>> work(b.net, b.backend);
    auto seq = b.begin();
    const auto cut = generate(work, seq, prompt, options);
    CHECK(cut.reason == finish_reason::stop);
    CHECK(cut.decode_steps + 1 == std::max<std::size_t>(layers_done / 4, 1));
    CHECK(std::ranges::equal(cut.tokens, std::span(plain).first(cut.tokens.size())));
    CHECK(seq.known() == (cut.tokens.empty() ? 0 : prompt.size() + cut.tokens.size() - 1));
  }
}

namespace {

struct planted_fault {};

}  // namespace

TEST_CASE("if a callback throws, the sequence has not read the tokens after that, drafted or not") {
  speculation_bench b;
  enum class callback { logits, token, step };
  std::size_t drafted = 0;
  for (const callback which : {callback::logits, callback::token, callback::step})
    for (std::size_t calls = 1; calls < 20; ++calls) {
      CAPTURE(static_cast<int>(which));
      CAPTURE(calls);
      generation_options options = of_length(30);
      options.speculate = 6;
      std::size_t left = calls, heard = 0;
      const auto called = [&](callback one) {
        if (one == which && --left == 0) throw planted_fault{};
      };
      options.on_logits = [&](std::span<const float>) { called(callback::logits); };
      options.on_token = [&](token_id) {
        called(callback::token);
        ++heard;
        return true;
      };
      options.on_step = [&](const any_session& session) {
        drafted += session.known() > prompt.size() + heard;
        called(callback::step);
      };
      auto seq = b.begin();
      workspace<reference<float>> work(b.net, b.backend);
      try {
        generate(work, seq, prompt, options);
      } catch (const planted_fault&) {
      }
      CHECK((left == 0 || which == callback::step));
      if (left == 0) CHECK(seq.known() == prompt.size() + heard);
    }
  CHECK(drafted > 0);
}

TEST_CASE("if a callback throws, sequences that generate together have read no drafts that were not handed out") {
  speculation_bench b;
  for (std::size_t calls = 1; calls < 12; ++calls) {
    CAPTURE(calls);
    generation_options first = of_length(30), second = of_length(30);
    first.speculate = second.speculate = 6;
    std::size_t heard_first = 0, heard_second = 0;
    first.on_token = [&](token_id) {
      if (heard_first + 1 == calls) throw planted_fault{};
      ++heard_first;
      return true;
    };
    second.on_token = [&](token_id) {
      ++heard_second;
      return true;
    };
    auto one = b.begin(), other = b.begin();
    workspace<reference<float>> work(b.net, b.backend);
    const generation_request<reference<float>> both[] = {{one, prompt, first}, {other, prompt, second}};
    CHECK_THROWS_AS(generate(work, both), planted_fault);
    CHECK(one.known() == prompt.size() + heard_first);
    CHECK(other.known() <= prompt.size() + heard_second);
  }
}

TEST_CASE("with drafts, scorers that forget each step choose the same tokens in the next turn; scorers that remember are refused") {
  const std::vector<token_id> repeated{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};
  const auto probes = calibration::read("1.0.0.mean.max@1/3.2.1.max.mean@1");
  std::size_t refused = 0;
  for (const any_scorer& scorer : {any_scorer(accumulated_attention{.since = memory_span::step}),
                                   any_scorer(calibrated_attention{.window = 2, .block = 2, .chosen = probes}),
                                   any_scorer(calibrated_attention{.window = 64, .block = 2, .chosen = probes})}) {
    const auto run = speculation_bench(tiny(), scorer).check(repeated, of_length(30), 4);
    CHECK(run.accepted > 0);
    refused += run.drafted - run.accepted;
  }
  CHECK(refused > 0);

  generation_options options = of_length(3);
  options.speculate = 4;
  for (const any_scorer& scorer : {any_scorer(accumulated_attention{}), any_scorer(prompt_window_attention{})})
    CHECK(error_of([&] { speculation_bench(tiny(), scorer).run(repeated, options); }) ==
          unsupported("generation: speculate", {"remembers earlier steps"}));
}

TEST_CASE("drafts are refused with a policy that prunes decode steps, and with a trace") {
  bench same(tiny(), stages{{1, 0.5}});
  generation_options options = of_length(3);
  options.speculate = 4;
  CHECK(error_of([&] { same.run(prompt, options); }) == unsupported("generation: speculate", {"prompt_only"}));
  CHECK_NOTHROW(bench().run(prompt, options));  // this policy prunes nothing
  options.trace = true;
  CHECK(error_of([&] { bench().run(prompt, options); }) == at("generation: speculate"));
}

TEST_CASE("the times of the prefill's sections are within the time of the prefill") {
  bench b;
  const auto result = b.run(prompt, of_length(3));
  CHECK(result.sections.attention > 0);
  CHECK(result.sections.logits > 0);
  CHECK(result.sections.attention + result.sections.logits + result.sections.policy + result.sections.moving < result.prefill_seconds);
}

TEST_CASE("logits that are not finite are an error") {
  bench b;
  tensor broken = random_source(tiny(), dtype::f32).get("model.norm.weight", 1, 16);
  std::vector<float> norm(16, std::numeric_limits<float>::quiet_NaN());
  broken.data = reinterpret_cast<const std::byte*>(norm.data());
  b.net.weights.norm = b.backend.load(std::span(&broken, 1));
  CHECK(error_of([&] { b.run(prompt, of_length(3)); }) == at("model: step 0: logits"));
}

TEST_CASE("prompts that are refused") {
  bench b;
  CHECK(error_of([&] { b.run({}, of_length(1)); }) == at("prompt: tokens"));
  CHECK(error_of([&] { b.run(std::vector<token_id>(65, 1), of_length(1)); }) ==
        at("prompt: length", {"64", ", found 65"}, error_code::no_room));
  generation_options options = of_length(1);
  options.context = 9;
  CHECK(error_of([&] { b.run(prompt, options); }) == at("prompt: length", {"most 9", ", found 10"}, error_code::no_room));
  options.context = 12;
  options.force = {1, 2, 3, 4};
  CHECK_THROWS_AS(b.run(prompt, options), error);
  options.force = {1, 2, 3};
  CHECK_NOTHROW(b.run(prompt, options));
  options.force = {40, 1};
  CHECK_THROWS_AS(b.run(prompt, options), error);
  CHECK_THROWS_AS(b.run({40}, of_length(1)), error);
}

TEST_CASE("generate gives no session a limit, and does not change the limit that a session has") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  const std::vector<token_id> turn{3, 1, 2, 7, 5};
  const auto goes_on = [&](sequence<reference<float>>& seq) { return !forward(work, seq, turn, phase::prefill).empty(); };
  auto seq = b.begin();
  generate(work, seq, prompt, of_length(1));
  auto fork = seq.fork();
  CHECK(goes_on(seq));
  CHECK(goes_on(fork));

  auto asked = b.begin();
  const generation_options alternatives[] = {of_length(1), of_length(3)};
  generate_alternatives(work, asked, std::span<const token_id>(prompt), alternatives);
  CHECK(goes_on(asked));

  sequence<reference<float>> limited(b.net, any_session(lazyllm(b.when), {.layers = 4, .max_tokens = 15}));
  CHECK(limited.session().limit() == 15);
  generate(work, limited, prompt, of_length(2));
  CHECK(limited.session().limit() == 15);
  CHECK(limited.fork().session().limit() == 15);
  CHECK(error_of([&] { forward(work, limited, turn, phase::prefill); }) ==
        at("session: begin", {"most 4", ", found 5"}, error_code::no_room));
}

TEST_CASE("a session's limit ends a sequence as the context does; a prompt longer than the limit is refused") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  const auto limited = [&](std::size_t tokens) {
    return sequence<reference<float>>(b.net, any_session(lazyllm(b.when), {.layers = 4, .max_tokens = tokens}));
  };
  auto seq = limited(12);
  const auto result = generate(work, seq, prompt, of_length(50));
  generation_options small = of_length(50);
  small.context = 12;
  CHECK(result.tokens == b.run(prompt, small).tokens);
  CHECK(result.reason == finish_reason::length);
  CHECK(seq.known() == 12);
  auto short_of = limited(9);
  CHECK(error_of([&] { generate(work, short_of, prompt, of_length(1)); }) ==
        at("prompt: length", {"most 9", ", found 10"}, error_code::no_room));
  CHECK(short_of.known() == 0);
}

TEST_CASE("all token ids of all requests are checked before the first token is read") {
  bench b;
  workspace<reference<float>> work(b.net, b.backend);
  const bench another;
  const std::vector<token_id> bad{1, 2, 40};
  std::size_t heard = 0;
  generation_options telling = of_length(3), forcing = of_length(3), chunked = of_length(3);
  telling.on_token = [&](token_id) {
    ++heard;
    return true;
  };
  forcing.force = {1, 2, 40};
  chunked.chunk = 3;
  struct counts final : step_observer {
    std::size_t steps = 0;
    void step_begins(std::span<const token_id>, std::size_t) override { ++steps; }
  } observer;
  telling.observer = &observer;
  const auto refused = [&](sequence<reference<float>> second, std::span<const token_id> tokens, const generation_options& options) {
    auto first = b.begin();
    const generation_request<reference<float>> requests[] = {{first, prompt, telling}, {second, tokens, options}};
    CHECK_THROWS_AS(generate(work, requests), error);
    CHECK(first.known() == 0);
  };
  refused(b.begin(), bad, telling);
  refused(b.begin(), prompt, forcing);
  refused(another.begin(), prompt, telling);
  std::vector<token_id> long_prompt(20, 1);
  long_prompt.back() = 40;
  chunked.observer = &observer;
  CHECK_THROWS_AS(b.run(long_prompt, chunked), error);
  auto seq = b.begin();
  CHECK_THROWS_AS((void)read_beginning(work, seq, std::span<const token_id>(long_prompt), 3, &observer), error);
  CHECK(heard == 0);
  CHECK(observer.steps == 0);
}

#ifdef _OPENMP
TEST_CASE("on cpu all layers of a step run in one team of threads, and all decode steps of a generation in another") {
  struct teams final : step_observer {
    std::vector<const lazyprune::detail::thread_team*> at_layer;  // of each layer of each step
    void layer_ends(const layer_end&) override { at_layer.push_back(lazyprune::detail::team_here); }
  } seen;
  cpu backend{execution{.threads = 2}};
  const auto net = lazyprune_test::tiny_model(backend);
  workspace<cpu> work(net, backend);
  auto seq = lazyprune_test::begin(net, dense());
  generation_options options = of_length(4);
  options.observer = &seen;
  CHECK(generate(work, seq, prompt, options).tokens.size() == 4);
  REQUIRE(seen.at_layer.size() == 4 * net.config.layers);
  CHECK(std::ranges::find(seen.at_layer, nullptr) == seen.at_layer.end());
  for (std::size_t i = net.config.layers; i < seen.at_layer.size(); ++i) CHECK(seen.at_layer[i] == seen.at_layer[net.config.layers]);
  CHECK(lazyprune::detail::team_here == nullptr);
}
#endif
