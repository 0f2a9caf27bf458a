// SPDX-License-Identifier: MIT
#include <lazyprune/model/generator.hpp>

#include <lazyprune/backend/reference.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/random_source.hpp>

#include <doctest/doctest.h>

#include "tiny_model.hpp"

using namespace lazyprune;

namespace {

using backend_type = reference<float>;

model_config tiny() {
  model_config c = lazyprune_test::tiny_config();
  c.max_positions = 64;
  return c;
}

/// One model and one policy, to generate with.
struct bench {
  model_config config;
  backend_type backend{execution{}};
  model<backend_type> net;
  stages when;

  explicit bench(model_config c = tiny(), lazyprune::stages stages = {})
      : config(std::move(c)), net(load_model(backend, config, random_source(config, dtype::f32))), when(std::move(stages)) {}

  sequence<backend_type> begin() const { return {net, any_session(lazyllm(when), {.layers = static_cast<layer_id>(config.layers)})}; }

  generation run(const std::vector<token_id>& prompt, const generation_options& options) {
    workspace<backend_type> work(net, backend);
    auto text = begin();
    return generate(work, text, prompt, options);
  }
};

const std::vector<token_id> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

generation_options of_length(std::size_t n) {
  generation_options options;
  options.max_new = n;
  return options;
}

}  // namespace

TEST_CASE("length: as many tokens as asked for, and no more than the context holds") {
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
  CHECK(b.run(prompt, small).tokens.size() == 3);  // the last one is never fed
  CHECK(b.run(prompt, of_length(100)).tokens.size() == 55);
}

TEST_CASE("EOS and the caller end the text; EOS can be ignored") {
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

TEST_CASE("a teacher's tokens take the place of those generated, and override length and EOS") {
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
  CHECK(result.trace[2].tokens == std::vector<token_id>{8});  // 9 is never fed
  for (const step_trace& step : result.trace) {
    CHECK(step.logits.size() == 40);
    CHECK(step.next == std::ranges::max_element(step.logits) - step.logits.begin());
    CHECK(step.layers.size() == 4);
    CHECK(step.margin.size() == 3);
  }
}

TEST_CASE("the logits of each step are heard, without a trace") {
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

TEST_CASE("what a pruned run costs: rows by layer, share of the prompt, revived rows, memory") {
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
  CHECK(pruned.run(longer, of_length(8)).tokens == going_on.tokens);  // a fresh sequence each time
}

TEST_CASE("a run can be stopped between two layers: the token in the making is not there") {
  bench b;
  generation_options options = of_length(5);
  options.trace = true;
  const auto whole = b.run(prompt, options);
  struct ends_before final : step_observer {
    std::size_t left;
    explicit ends_before(std::size_t layers) : left(layers) {}
    bool stops() override { return left-- == 0; }
  };
  for (const std::size_t layers_done : {0u, 3u, 4u, 9u}) {  // of 4 layers: in the prefill, or in a step after it
    CAPTURE(layers_done);
    ends_before end(layers_done);
    options.observer = &end;
    const auto cut = b.run(prompt, options);
    const std::size_t steps = layers_done / 4;
    CHECK(cut.reason == finish_reason::stop);
    CHECK(cut.tokens == std::vector<token_id>(whole.tokens.begin(), whole.tokens.begin() + static_cast<std::ptrdiff_t>(steps)));
    CHECK(cut.trace.size() == steps);
    CHECK((cut.prefill_seconds > 0) == (steps > 0));
  }
  options.observer = nullptr;
  CHECK(b.run(prompt, options).tokens == whole.tokens);  // nothing of it stays behind
}

TEST_CASE("a next turn goes on with the sequence: the logits of one text, and the costs of both turns") {
  bench b;
  workspace<backend_type> work(b.net, b.backend);
  auto text = b.begin();
  generation_options options;
  options.force = {7, 8, 9};
  options.trace_logits = true;
  const auto first = generate(work, text, prompt, options);
  CHECK(text.known() == prompt.size() + 2);  // the 9 is chosen and not read
  options.force = {5, 6};
  const std::vector<token_id> turn{9, 1, 2, 3};
  const auto second = generate(work, text, turn, options);
  CHECK(text.known() == prompt.size() + 2 + turn.size() + 1);
  CHECK(second.tokens == options.force);
  CHECK(second.share_prompt == 1.0);
  CHECK(second.cost.steps == 5);
  CHECK(second.cost.rows == text.known() * b.config.layers);
  CHECK(second.memory.kv == text.kv().bytes());
  REQUIRE(second.trace.size() == 2);
  CHECK(second.trace[0].tokens == turn);
  CHECK(second.trace[0].layers.front().active.size() == prompt.size() + 2 + turn.size());

  std::vector<token_id> whole = prompt;
  whole.insert(whole.end(), {7, 8, 9, 1, 2, 3});
  CHECK(b.run(whole, options).trace.back().logits == second.trace.back().logits);

  const std::string long_turn = "prompt: length: expected at most 64 tokens with those before it, found 77";
  CHECK_THROWS_WITH_AS(generate(work, text, std::vector<token_id>(60, 1), options), long_turn.c_str(), error);
  const std::size_t known = text.known();
  CHECK_NOTHROW(generate(work, text, turn, options));  // what is refused changes nothing
  CHECK(text.known() == known + turn.size() + 1);
}

TEST_CASE("of a pruned conversation, each turn's share is that of its own prompt") {
  bench b(tiny(), stages{{1, 0.5}, {3, 0.4}});
  workspace<backend_type> work(b.net, b.backend);
  auto text = b.begin();
  std::vector<token_id> longer;
  for (token_id t = 0; t < 20; ++t) longer.push_back(t);
  CHECK(generate(work, text, longer, of_length(1)).share_prompt == doctest::Approx(44.0 / 80.0));  // 20, 10, 10 and 4 rows
  const auto second = generate(work, text, longer, of_length(1));
  CHECK(second.share_prompt == share_computed(text.session().tokens(), 20, 20, 4));
  CHECK(second.share_prompt < 1.0);
}

TEST_CASE("parts of the prefill's time") {
  bench b;
  const auto result = b.run(prompt, of_length(3));
  CHECK(result.parts.attention > 0);
  CHECK(result.parts.logits > 0);
  CHECK(result.parts.attention + result.parts.logits + result.parts.policy + result.parts.moving < result.prefill_seconds);
}

TEST_CASE("a model whose logits are no numbers is an error, not a text") {
  bench b;
  tensor broken = random_source(tiny(), dtype::f32).get("model.norm.weight", 1, 16);
  std::vector<float> norm(16, std::numeric_limits<float>::quiet_NaN());
  broken.data = reinterpret_cast<const std::byte*>(norm.data());
  b.net.weights.norm = b.backend.load(std::span(&broken, 1));
  CHECK_THROWS_WITH_AS(b.run(prompt, of_length(3)), doctest::Contains("model: step 0: logits: expected finite numbers, found"), error);
}

TEST_CASE("prompts that cannot be run") {
  bench b;
  CHECK_THROWS_WITH_AS(b.run({}, of_length(1)), "prompt: tokens: expected at least one, found none", error);
  CHECK_THROWS_WITH_AS(b.run(std::vector<token_id>(65, 1), of_length(1)), "prompt: length: expected at most 64 tokens, found 65", error);
  generation_options options = of_length(1);
  options.context = 9;
  CHECK_THROWS_WITH_AS(b.run(prompt, options), "prompt: length: expected at most 9 tokens, found 10", error);
  options.context = 12;
  options.force = {1, 2, 3, 4};
  CHECK_THROWS_AS(b.run(prompt, options), error);
  options.force = {1, 2, 3};
  CHECK_NOTHROW(b.run(prompt, options));
  options.force = {40, 1};
  CHECK_THROWS_AS(b.run(prompt, options), error);
  CHECK_THROWS_AS(b.run({40}, of_length(1)), error);
}
