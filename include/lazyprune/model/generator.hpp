// SPDX-License-Identifier: MIT
// Generates text: a prefill of the prompt, then a step a token.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
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
  step_observer* observer = nullptr;                        // told of each step; ends the text where it stops one ("stop")
};

struct generation {
  std::vector<token_id> tokens;  // generated, EOS included where it came
  finish_reason reason = finish_reason::length;
  double prefill_seconds = 0;  // time to first token: from ids ready to the first token chosen
  double decode_seconds = 0;   // of the steps after it
  std::size_t decode_steps = 0;
  statistics cost;          // of the sequence, earlier turns included
  double share_prompt = 0;  // of prompt tokens and layers, the part computed by the end (the paper's Table 2)
  memory_use memory;
  step_seconds parts;  // of the prefill
  std::vector<step_trace> trace;
};

/// Of `count` tokens from `first` on and all layers, the part that has keys and values.
inline double share_computed(const frontier_table& tokens, std::size_t first, std::size_t count, layer_id layers) {
  std::size_t computed = 0;
  for (std::size_t t = first; t < first + count; ++t) computed += tokens.frontier(static_cast<position>(t));
  return static_cast<double>(computed) / static_cast<double>(count * layers);
}

namespace detail {

/// Throws where the prompt is none or does not fit. Returns the tokens that can come to be known.
inline std::size_t most_tokens(std::size_t known, std::size_t prompt, std::size_t context, const generation_options& options) {
  const auto at_most = [](std::string_view what, std::size_t most, std::string_view note, std::size_t found) {
    throw error(what, "length", "at most " + std::to_string(most) + " tokens" + std::string(note), std::to_string(found),
                error_code::no_room);
  };
  if (prompt == 0) throw error("prompt", "tokens", "at least one", "none");
  const std::size_t asked = known + prompt;
  if (asked > context) at_most("prompt", context, known > 0 ? " with those before it" : "", asked);
  const std::size_t forced = options.force.size();
  if (forced > 1 && asked + forced - 1 > context) at_most("forced tokens", context, " with the prompt", asked + forced - 1);
  return asked + std::min(forced > 0 ? forced : options.max_new, context - asked);
}

/// One generation in the making.
template <tensor_backend Backend>
class generating {
 public:
  generating(lazyprune::workspace<Backend>& work, sequence<Backend>& text, const generation_options& options)
      : work_(work), text_(text), options_(options), choose_(options.sampler), recorder_(options.trace_logits) {}

  generation run(std::span<const token_id> prompt) {
    const model_config& config = work_.model().config;
    const std::size_t before = text_.known();
    const std::size_t context = options_.context > 0 ? std::min(options_.context, config.max_positions) : config.max_positions;
    const std::size_t most = most_tokens(before, prompt.size(), context, options_);
    text_.reserve(most);
    steps(prompt, context, most);
    result_.cost = text_.session().stats();
    if (text_.known() > before)
      result_.share_prompt = share_computed(text_.session().tokens(), before, prompt.size(), text_.session().layers());
    result_.memory = memory_.most();
    result_.memory.scratch = work_.bytes(most);
    result_.parts = timer_.seconds();
    result_.trace = recorder_.take();
    return std::move(result_);
  }

 private:
  using clock = std::chrono::steady_clock;

  void steps(std::span<const token_id> prompt, std::size_t context, std::size_t most) {
    const std::size_t count = options_.force.empty() ? options_.max_new : options_.force.size();
    step_observer* const recorder = options_.trace || options_.trace_logits ? &recorder_ : nullptr;
    step_observers in_prefill{&memory_, &timer_, recorder, options_.observer}, in_decode{&memory_, recorder, options_.observer};
    std::span<const token_id> input = prompt;
    for (std::size_t k = 0; k < count; ++k) {
      const auto start = clock::now();
      if (k == 0) work_.reserve(most);
      const auto logits =
          k == 0 ? forward(work_, text_, input, phase::prefill, &in_prefill) : forward(work_, text_, input, phase::decode, &in_decode);
      if (logits.empty()) {
        result_.reason = finish_reason::stop;
        return;
      }
      check_finite(logits, k);
      next_ = options_.force.empty() ? choose_(logits) : options_.force[k];
      (k == 0 ? result_.prefill_seconds : result_.decode_seconds) += std::chrono::duration<double>(clock::now() - start).count();
      if (k > 0) ++result_.decode_steps;
      if (options_.on_logits) options_.on_logits(std::vector<float>(logits.begin(), logits.end()));
      result_.tokens.push_back(next_);
      if (ends() || text_.known() == context) return;
      input = std::span(&next_, 1);
    }
  }

  static void check_finite(auto logits, std::size_t step) {
    if (const auto wrong = std::ranges::find_if_not(logits, [](auto l) { return std::isfinite(l); }); wrong != logits.end())
      throw error("model", "step " + std::to_string(step) + ": logits", "finite numbers", std::to_string(*wrong));
  }

  /// Whether the token just generated is the last one, and why.
  bool ends() {
    const std::vector<token_id>& eos = work_.model().config.eos;
    if (options_.force.empty() && !options_.ignore_eos && std::ranges::find(eos, next_) != eos.end()) {
      result_.reason = finish_reason::eos;
      return true;
    }
    if (options_.on_token && !options_.on_token(next_)) {
      result_.reason = finish_reason::stop;
      return true;
    }
    return false;
  }

  lazyprune::workspace<Backend>& work_;
  sequence<Backend>& text_;
  const generation_options& options_;
  sampler choose_;
  memory_watch memory_;
  step_timer timer_;
  trace_recorder recorder_;
  token_id next_ = 0;
  generation result_;
};

}  // namespace detail

/// Goes on with a sequence, a new one or one that has had earlier turns: reads the prompt, then generates token by token. The last token
/// generated is chosen and not read: a next turn's prompt begins with it. Throws `error` where the prompt is empty, does not fit into the
/// context, or is not of the model's vocabulary, and where the model yields logits that are no numbers.
template <tensor_backend Backend>
generation generate(workspace<Backend>& work, sequence<Backend>& text, std::span<const token_id> prompt,
                    const generation_options& options) {
  return detail::generating<Backend>(work, text, options).run(prompt);
}

}  // namespace v0
}  // namespace lazyprune
