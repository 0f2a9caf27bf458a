// SPDX-License-Identifier: MIT
#include "questions/prepared_prompt.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/engine.hpp"
#include "questions/prompt_look.hpp"

#include <lazyprune/eval/compression.hpp>
#include <lazyprune/policy/scorer/given_scores.hpp>
#include <lazyprune/registry/part_text.hpp>

namespace lazyprune {
namespace program {
namespace {

prepared_prompt compress(std::span<const token_id> prompt, token_range context, const eval_setting& setting, std::size_t expected,
                         engine& model) {
  context.begin = std::max(context.begin, setting.policy.keep_first.value_or(0));
  context.end = std::min(context.end, prompt.size() - std::min(prompt.size(), setting.policy.keep_last.value_or(0)));
  const auto start = std::chrono::steady_clock::now();
  const scored_prompt scored = model.self_information(prompt, expected);
  prepared_prompt out{.tokens = compressed(prompt, scored.information, context, setting.prompt_share), .policy = setting.policy};
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.bytes = scored.bytes;
  return out;
}

}  // namespace

prepared_prompt prepared(std::span<const token_id> prompt, token_range context, const eval_setting& setting, std::size_t expected,
                         engine& model) {
  if (setting.prompt_share < 1) return compress(prompt, context, setting, expected, model);
  prepared_prompt out{.tokens = {prompt.begin(), prompt.end()}, .policy = setting.policy};
  if (setting.look > 0) {
    prompt_look look = look_at(prompt, setting.look, expected, model);
    out.policy.scorer = text_of(given_scores{position_scores(std::move(look.scores))});
    out.seconds = look.seconds;
    out.bytes = look.bytes;
  }
  return out;
}

}  // namespace program
}  // namespace lazyprune
