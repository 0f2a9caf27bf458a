// SPDX-License-Identifier: MIT
// What every run has, of one prompt or of many: the model, its tokenizer, the policy, and answers on their way out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/outcome.hpp"
#include "commands/run.hpp"
#include "engine/engine.hpp"
#include "models/model_choice.hpp"
#include "models/sessions.hpp"
#include "terminal/interrupts.hpp"
#include "words/model_words.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/registry/policy_spec.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {

/// A policy, and all the flags that make it.
struct named_policy {
  policy_spec spec;
  std::string text;
};

/// A measurement of the dense model before the run.
struct warm_up {
  std::size_t tokens;   // of the prompt
  double step_seconds;  // a token after them
};

class text_run {
 public:
  /// Opens the model. Throws `error` where a flag does not suit it.
  text_run(const run_flags& flags, const policy_registry& policies);
  text_run(const text_run&) = delete;
  text_run& operator=(const text_run&) = delete;

  const opened_model& model() const { return model_; }
  const tokenizer* words() const { return tokens_; }  // null: none
  lazyprune::program::engine& engine() const { return *engine_; }

  const named_policy& pruned() const { return pruned_; }
  const named_policy& dense() const { return dense_; }
  any_session new_session(const named_policy& policy) const;

  /// The ids of a plain prompt. Throws `error` where the model has no tokenizer.
  std::vector<token_id> encode(const std::string& text) const;

  /// True where a chat template surrounds the prompt.
  bool chats() const { return chat_.has_value(); }
  /// The chat in those words. Throws `error` where the template refuses it.
  rendered_chat rendered(const chat_request& chat) const { return chat_->render(chat); }
  /// The ids of a chat: user text cannot become a special token, nor another one of the template's, and none is added.
  std::vector<token_id> encode(const rendered_chat& chat) const { return tokens_->encode(chat.runs(), chat.template_words()); }

  /// Throws `error` where the prompt is empty or does not fit into the context; `which` says which one, of several.
  void check_length(std::span<const token_id> prompt, const std::string& which = {}) const;

  /// Whether a token is to be generated, and so a prompt to be read.
  bool generates() const { return flags_.predict > 0 || !flags_.force.empty(); }

  /// Says what memory the run will take, loads the weights, and warms up: the dense model answers the prompt's beginning, if there is any,
  /// with a few tokens, which starts the threads and brings the code into memory before a clock runs. False where Ctrl-C came. Throws
  /// `error` (no_memory) where the memory is not there, before anything is loaded.
  bool load(std::span<const token_id> prompt);

  /// How long a text with so long a prompt will get, with its answer.
  std::size_t expected_length(std::size_t prompt) const;

  /// What the flags ask of a generation; Ctrl-C ends it.
  generation_options options();

  /// An answer to the prompt, of which `known` tokens were read before, written to stdout as it comes if `show`. `generate` is given the
  /// options. After Ctrl-C the answer is empty.
  outcome answer(const named_policy& policy, std::span<const token_id> prompt, std::size_t known, bool show,
                 const std::function<generation(const generation_options&)>& generate);

  /// What the run's JSON begins with.
  run_heading heading() const;

 private:
  /// A model's vocabulary may be larger than its tokenizer's, in fillers that stand for no text.
  std::string decode(token_decoder& decoder, token_id id) const { return id < tokens_->size() ? decoder.push(id) : ""; }

  run_flags flags_;
  const policy_registry& policies_;
  opened_model model_;
  chosen_policy chosen_;
  named_policy pruned_, dense_;
  model_words words_;
  const tokenizer* tokens_ = nullptr;
  std::vector<token_id> ends_;      // an answer ends at any of these; empty: at the config's
  std::optional<chat_words> chat_;  // around the prompt; none: it is plain text
  std::size_t context_ = 0;
  std::unique_ptr<lazyprune::program::engine> engine_;  // none before `load`
  std::optional<warm_up> warm_up_;
  ends_when_interrupted interrupts_;
};

}  // namespace program
}  // namespace lazyprune
