// SPDX-License-Identifier: MIT
#include "questions/prepared_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "pocket_prompt.hpp"
#include "questions/prompt_look.hpp"

#include <lazyprune/eval/compression.hpp>
#include <lazyprune/policy/scorer/given_scores.hpp>
#include <lazyprune/registry/part_text.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("a prompt stays as it is, is looked at, or loses what the model could guess of its context") {
  const lazyprune_test::pocket_prompt pocket;
  const opened_model& files = pocket.files;
  const std::unique_ptr<engine>& model = pocket.model;
  const std::vector<token_id>& prompt = pocket.tokens;
  const token_range context{10, 80};
  const auto setting = [&](std::string_view name, double budget) {
    return at_budget(read_method(name, files.layers(), stages{{3, 0.5}}), budget, files.layers());
  };

  const prepared_prompt pruned = prepared(prompt, context, setting("lazyllm@3", 0.75), *model);
  CHECK(pruned.tokens == prompt);
  CHECK(pruned.policy == setting("lazyllm@3", 0.75).policy);
  CHECK(pruned.seconds == 0);
  CHECK(pruned.bytes == 0);

  const prepared_prompt given = prepared(prompt, context, setting("given@2", 0.75), *model);
  CHECK(given.tokens == prompt);
  CHECK(given.policy.scorer == text_of(given_scores{position_scores(look_at(prompt, 2, *model).scores)}));
  CHECK(given.seconds > 0);
  CHECK(given.bytes > 0);

  const prepared_prompt whole = prepared(prompt, context, setting("compression", 0.6), *model);
  CHECK(whole.tokens.size() == 54);
  CHECK(whole.seconds > 0);
  CHECK(whole.bytes > 0);
  const prepared_prompt kept = prepared(prompt, {0, 90}, keeping(setting("compression", 0.6), {20, 30}), *model);
  CHECK(kept.tokens.size() == 54);
  CHECK(std::equal(prompt.begin(), prompt.begin() + 20, kept.tokens.begin()));
  CHECK(std::equal(prompt.end() - 30, prompt.end(), kept.tokens.end() - 30));
}
