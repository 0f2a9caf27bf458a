// SPDX-License-Identifier: MIT
#include "questions/prompt_look.hpp"

#include <chrono>

#include "engine/engine.hpp"

#include <lazyprune/model/config.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/scorer/window_attention.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/store/none.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Scores by attention, and records the scores.
struct noting_scorer {
  window_attention scorer{.window = 8, .kernel = 7, .pool = pooling::mean};
  std::size_t window = scorer.window;
  std::vector<float>* noted;  // must have capacity for all tokens, because a scorer must not throw

  void score(const window_view& view, std::span<float> out) const {
    scorer.score(view, out);
    noted->assign(out.begin(), out.end());
  }
};

class stops_where_noted final : public step_observer {
 public:
  explicit stops_where_noted(const std::vector<float>& scores) : scores_(scores) {}
  bool stops() override { return !scores_.empty(); }

 private:
  const std::vector<float>& scores_;
};

}  // namespace

prompt_look look_at(std::span<const token_id> prompt, layer_id layers, std::size_t expected, engine& model) {
  prompt_look look;
  look.scores.reserve(prompt.size());
  stops_where_noted observer(look.scores);
  generation_options options;
  options.max_new = 1;
  options.expected = expected;
  options.observer = &observer;
  const auto start = std::chrono::steady_clock::now();
  // The stage makes the session ask the scorer after `layers` layers. The observer then stops the run, so the stage's share does not
  // matter.
  any_session session(policy{noting_scorer{.noted = &look.scores}, stages{{layers, 0.5}}, top_k{}, none{}},
                      {.layers = static_cast<layer_id>(model.config().layers)});
  look.bytes = model.generate(std::move(session), prompt, options).memory.total();
  look.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return look;
}

}  // namespace program
}  // namespace lazyprune
