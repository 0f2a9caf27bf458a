// SPDX-License-Identifier: MIT
#include "questions/prompt_look.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <vector>

#include "pocket_prompt.hpp"

#include <lazyprune/model/generation.hpp>
#include <lazyprune/policy/detail/order.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/none.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("a look returns the scores by which a session prunes after the same layer") {
  const lazyprune_test::pocket_prompt pocket;
  const opened_model& files = pocket.files;
  const std::unique_ptr<engine>& model = pocket.model;
  const std::vector<token_id>& prompt = pocket.tokens;
  generation_options options;
  options.max_new = 1;
  options.trace = true;
  for (const layer_id layers : {1u, 3u, 5u}) {
    CAPTURE(layers);
    std::vector<float> scores = look_at(prompt, layers, prompt.size() + 1, *model).scores;
    REQUIRE(scores.size() == prompt.size());
    any_session session(policy{window_attention{8, 7, pooling::mean}, stages{{layers, 0.4}}, top_k{}, none{}}, {.layers = files.layers()});
    const generation pruned = model->generate(std::move(session), prompt, options);
    scores.back() = std::numeric_limits<float>::infinity();
    std::vector<position> kept(prompt.size());
    kept.resize(lazyprune::detail::best(scores, 36, kept));
    CHECK(pruned.trace[0].layers[layers].active == kept);
  }
  const prompt_look one = look_at(std::span(prompt).first(1), 3, 2, *model);
  CHECK(one.scores.size() == 1);
  CHECK(one.bytes > 0);
  CHECK(one.seconds > 0);
}
