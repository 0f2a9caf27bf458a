// SPDX-License-Identifier: MIT
// Generates text with a model under a pruning session: the prefill, then a step a token.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <lazyprune/model/sampler.hpp>
#include <lazyprune/model/transformer.hpp>

namespace lazyprune {
inline namespace v0 {

enum class finish_reason : std::uint8_t { eos, stop, length };

constexpr std::string_view name_of(finish_reason reason) {
  return reason == finish_reason::eos ? "eos" : reason == finish_reason::stop ? "stop" : "length";
}

struct generation_options {
  std::size_t max_new = 64;  // tokens to generate
  std::size_t context = 0;   // longest sequence; 0: the model's
  sampling sampler{};
  bool ignore_eos = false;
  std::vector<token_id> force{};                            // teacher: so many steps, each of these in the place of the token generated
  bool trace = false;                                       // record a step_trace for each step
  bool trace_logits = false;                                // and the logits in it
  std::function<void(std::span<const float>)> on_logits{};  // called with each step's, while no clock runs
  std::function<bool(token_id)> on_token{};                 // called with each token but a last EOS; false ends the text ("stop")
  std::function<bool()> stop{};  // asked before each layer; true ends the text there, without the token in the making ("stop")
};

struct generation {
  std::vector<token_id> tokens;  // generated, EOS included where it came
  finish_reason reason = finish_reason::length;
  double prefill_seconds = 0;  // time to first token: from ids ready to the first token chosen
  double decode_seconds = 0;   // of the steps after it
  std::size_t decode_steps = 0;
  statistics cost;
  double share_prompt = 0;  // of prompt tokens and layers, the part computed by the end (the paper's Table 2)
  memory_use memory;
  overhead_time overhead;  // of the prefill
  step_seconds parts;      // of the prefill
  std::vector<step_trace> trace;
};

/// Prompt tokens and layers that have keys and values, of all there are.
inline double share_computed(const frontier_table& tokens, std::size_t prompt, layer_id layers) {
  std::size_t computed = 0;
  for (std::size_t t = 0; t < prompt; ++t) computed += tokens.frontier(static_cast<position>(t));
  return static_cast<double>(computed) / static_cast<double>(prompt * layers);
}

/// Runs a fresh session over the prompt. Throws where the prompt is empty, longer than the context, or not of the model's
/// vocabulary, and where the model yields logits that are no numbers.
template <tensor_backend Backend>
generation generate(const model<Backend>& model, Backend& backend, any_session& session, std::span<const token_id> prompt,
                    const generation_options& options) {
  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); };
  const std::size_t context = options.context > 0 ? std::min(options.context, model.config.max_positions) : model.config.max_positions;
  if (prompt.empty()) throw error("prompt", "tokens", "at least one", "none");
  if (prompt.size() > context)
    throw error("prompt", "length", "at most " + std::to_string(context) + " tokens", std::to_string(prompt.size()));

  const std::size_t steps = options.force.empty() ? options.max_new : options.force.size();
  if (options.force.size() > 1 && prompt.size() + options.force.size() - 1 > context)
    throw error("forced tokens", "length", "at most " + std::to_string(context) + " tokens with the prompt",
                std::to_string(prompt.size() + options.force.size() - 1));
  session.reset();
  const std::size_t most = prompt.size() + std::min(steps, context - prompt.size());  // tokens that can come to be known
  session.reserve(most);
  decoder_state<Backend> state(model.config);
  transformer<Backend> net(model, backend);
  net.stop_when(options.stop);
  sampler choose(options.sampler);
  generation result;

  token_id next = 0;
  std::span<const token_id> input = prompt;
  for (std::size_t k = 0; k < steps; ++k) {
    const bool prefill = k == 0;
    const auto start = clock::now();
    const bool record = options.trace || options.trace_logits;
    if (prefill) net.reserve(state, most);
    if (record) result.trace.push_back({.step = k, .tokens = {}, .layers = {}, .next = 0, .logits = {}, .margin = {}});
    const auto logits =
        net.forward(state, session, input, prefill ? phase::prefill : phase::decode, record ? &result.trace.back() : nullptr);
    if (logits.empty()) {
      if (record) result.trace.pop_back();
      result.reason = finish_reason::stop;
      break;
    }
    if (const auto wrong = std::ranges::find_if_not(logits, [](auto l) { return std::isfinite(l); }); wrong != logits.end())
      throw error("model", "step " + std::to_string(k) + ": logits", "finite numbers", std::to_string(*wrong));
    next = options.force.empty() ? choose(logits) : options.force[k];
    (prefill ? result.prefill_seconds : result.decode_seconds) += seconds_since(start);
    if (prefill)
      result.overhead = state.overhead, result.parts = net.seconds();
    else
      ++result.decode_steps;
    if (options.trace_logits) result.trace.back().logits.assign(logits.begin(), logits.end());
    if (options.on_logits) options.on_logits(std::vector<float>(logits.begin(), logits.end()));

    result.tokens.push_back(next);
    input = std::span(&next, 1);
    if (options.force.empty() && !options.ignore_eos && std::ranges::find(model.config.eos, next) != model.config.eos.end()) {
      result.reason = finish_reason::eos;
      break;
    }
    if (options.on_token && !options.on_token(next)) {
      result.reason = finish_reason::stop;
      break;
    }
    if (session.known() == context) break;
  }
  result.cost = session.stats();
  result.share_prompt = session.known() == 0 ? 0.0 : share_computed(session.tokens(), prompt.size(), session.layers());
  result.memory = state.memory();
  return result;
}

}  // namespace v0
}  // namespace lazyprune
