// SPDX-License-Identifier: MIT
// Runs a session and an any_session of every preset, and a session of every preset by its name.
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include "presets.hpp"

using namespace lazyprune;

namespace {

constexpr std::size_t tokens = 20, window = 8;

/// Runs one step of a session, and returns the number of rows that the step computes. The presets need the attention of the last query, the
/// attention of the last eight queries, or no attention.
template <class Session>
std::size_t rows_planned(Session session) {
  auto step = session.begin({tokens, phase::prefill});
  const std::vector<float> probabilities(window * tokens, 0.05f);
  for (layer_id l = 0; l < session.layers(); ++l) {
    const layer_plan& plan = step.enter(l);
    evidence shown;
    if (step.wants() == evidence_kind::window)
      shown = window_view{probabilities.data(), step.window(), 1, tokens, plan.active};
    else if (step.wants_scores())
      shown = attention_view{probabilities.data(), 1, tokens, plan.active};
    step.leave(shown);
  }
  step.finish();
  return session.stats().rows;
}

template <class Policy>
bool plans(const Policy& preset, std::size_t rows) {
  const session_options options{.layers = 4, .max_tokens = tokens};
  return rows_planned(session(preset, options)) == rows && rows_planned(any_session(preset, options)) == rows;
}

}  // namespace

int planning_presets() {
  const stages half{{2, 0.5}};
  return plans(lazyllm(half), 20 + 20 + 10 + 10) + plans(lazyllm_blocks(half, 2), 20 + 20 + 10 + 10) +
         plans(static_pruning(half), 20 + 20 + 10 + 10) + plans(random_drop(0.5), 4 * 10) + plans(streaming_llm(2, 3), 4 * 5) +
         plans(fastv(), 20 + 20 + 10 + 10) + plans(pyramid_drop(4), 20 + 10 + 5 + 3) + plans(tova(2, 5), 4 * 20) +
         plans(pyramid_kv(0.4), 20 + 16 + 12 + 8) + plans(prompt_distill(2, 7), 20 + 20 + 7 + 7) + plans(dense(), 4 * 20);
}

int named_presets() {
  const policy_registry policies = shipped_policies();
  int planning = 0;
  for (const policy_preset& preset : policies.presets()) {
    const std::size_t rows = rows_planned(make_session({.preset = preset.name}, {.layers = 4, .max_tokens = tokens}, policies));
    if (rows > 0 && rows <= 4 * tokens) ++planning;
  }
  return planning;
}

void read_wrong_text() { (void)parse_policy("lazyllm --stage 2:0.5"); }
