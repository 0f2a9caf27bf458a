// SPDX-License-Identifier: MIT
#include "questions/prompt_look.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_choice.hpp"

#include <lazyprune/model/generator.hpp>
#include <lazyprune/policy/detail/order.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/none.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

TEST_CASE("a look has the scores by which a session prunes after so many layers") {
  const opened_model files(model_flags{.path = LAZYPRUNE_SOURCE_DIR "/examples/pocket/model"});
  const std::unique_ptr<engine> model = load_engine(backend_flags{.threads = 1}, files);
  std::vector<token_id> prompt;
  for (token_id i = 0; i < 90; ++i) prompt.push_back(3 + i * 37 % 200);
  generation_options options;
  options.max_new = 1;
  options.trace = true;
  for (const layer_id layers : {1u, 3u, 5u}) {
    CAPTURE(layers);
    std::vector<float> scores = look_at(prompt, layers, *model).scores;
    REQUIRE(scores.size() == prompt.size());
    any_session session(policy{window_attention{8, 7, pooling::mean}, stages{{layers, 0.4}}, top_k{}, none{}}, {.layers = files.layers()});
    const generation pruned = model->generate(std::move(session), prompt, options);
    scores.back() = std::numeric_limits<float>::infinity();
    std::vector<position> kept(prompt.size());
    kept.resize(lazyprune::detail::best(scores, 36, kept));
    CHECK(pruned.trace[0].layers[layers].active == kept);
  }
  const prompt_look one = look_at(std::span(prompt).first(1), 3, *model);
  CHECK(one.scores.size() == 1);
  CHECK(one.bytes > 0);
  CHECK(one.seconds > 0);
}
