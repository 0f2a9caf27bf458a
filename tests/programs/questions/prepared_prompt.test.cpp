// SPDX-License-Identifier: MIT
#include "questions/prepared_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "model/tiny_model.hpp"
#include "pocket_prompt.hpp"
#include "questions/prompt_look.hpp"

#include <lazyprune/eval/compression.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/policy/scorer/given_scores.hpp>
#include <lazyprune/registry/part_text.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("a prompt stays as it is, is looked at, or loses the context's most predictable tokens") {
  const lazyprune_test::pocket_prompt pocket;
  const opened_model& files = pocket.files;
  const std::unique_ptr<engine>& model = pocket.model;
  const std::vector<token_id>& prompt = pocket.tokens;
  const token_range context{10, 80};
  const auto setting = [&](std::string_view name, double budget) {
    return at_budget(read_method(name, files.layers(), stages{{3, 0.5}}), budget, files.layers());
  };

  const prepared_prompt pruned = prepared(prompt, context, setting("lazyllm@3", 0.75), 100, *model);
  CHECK(pruned.tokens == prompt);
  CHECK(pruned.policy == setting("lazyllm@3", 0.75).policy);
  CHECK(pruned.seconds == 0);
  CHECK(pruned.bytes == 0);

  const prepared_prompt given = prepared(prompt, context, setting("given@2", 0.75), 100, *model);
  CHECK(given.tokens == prompt);
  CHECK(given.policy.scorer == text_of(given_scores{position_scores(look_at(prompt, 2, 100, *model).scores)}));
  CHECK(given.seconds > 0);
  CHECK(given.bytes > 0);

  const prepared_prompt whole = prepared(prompt, context, setting("compression", 0.6), 100, *model);
  CHECK(whole.tokens.size() == 54);
  CHECK(whole.seconds > 0);
  CHECK(whole.bytes > 0);
  const prepared_prompt kept = prepared(prompt, {0, 90}, keeping(setting("compression", 0.6), {20, 30}), 100, *model);
  CHECK(kept.tokens.size() == 54);
  CHECK(std::equal(prompt.begin(), prompt.begin() + 20, kept.tokens.begin()));
  CHECK(std::equal(prompt.end() - 30, prompt.end(), kept.tokens.end() - 30));
}

TEST_CASE("looks and compression use the RoPE frequencies for the expected length of prompt and answer together") {
  model_config config = lazyprune_test::tiny_config();
  config.rope = {.scaling = rope_scaling::longrope, .original_positions = 100, .divisors = {1.0, 1.5}, .long_divisors = {3.0, 5.0}};
  model_config near = config, far = config;
  near.rope = {.divisors = config.rope.divisors};
  far.rope = {.divisors = config.rope.long_divisors};
  const auto prompt = lazyprune_test::some_tokens(60);
  const auto loaded = [](const model_config& c) { return load_engine({.threads = 1}, c, random_source(c, dtype::f32)); };
  const auto layers = static_cast<layer_id>(config.layers);
  const eval_setting given = at_budget(read_method("given@2", layers, stages{{3, 0.5}}), 0.75, layers);
  const auto scores = [&](const model_config& c, std::size_t expected) {
    return *prepared(prompt, {0, 60}, given, expected, *loaded(c)).policy.scorer;
  };
  REQUIRE(scores(near, 60) != scores(far, 60));
  CHECK(scores(config, 100) == scores(near, 100));
  CHECK(scores(config, 101) == scores(far, 101));
  const auto told = [&](const model_config& c, std::size_t expected) { return loaded(c)->self_information(prompt, expected).information; };
  REQUIRE(told(near, 60) != told(far, 60));
  CHECK(told(config, 100) == told(near, 100));
  CHECK(told(config, 101) == told(far, 101));
}
