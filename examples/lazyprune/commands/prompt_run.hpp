// SPDX-License-Identifier: MIT
// The parts of every run, of one prompt or of many: the model, its tokenizer, the policy, and the output of answers.
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
#include "words/chat_prompt.hpp"
#include "words/model_words.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/registry/policy_spec.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {

/// A policy and its two descriptions.
struct named_policy {
  policy_spec spec;
  std::string text;  // all flags that make the policy
  std::string line;  // for people: the preset's name or "calibrated", the stages or the schedule, and the flags that were given
};

/// The dense model, measured before the run.
struct warm_up {
  std::size_t tokens;   // the prompt's tokens that it read
  double step_seconds;  // the time of one decode step after these tokens
};

class prompt_run {
 public:
  /// Opens the model. Throws `error` if a flag does not suit the model.
  prompt_run(const run_flags& flags, const policy_registry& policies);
  prompt_run(const prompt_run&) = delete;
  prompt_run& operator=(const prompt_run&) = delete;

  const opened_model& model() const { return model_; }
  const tokenizer* words() const { return tokens_; }  // null: the model has none
  document_roles documents() const { return flags_.documents.value_or(document_roles{}); }
  lazyprune::program::engine& engine() const { return *engine_; }

  const named_policy& pruned() const { return pruned_; }
  /// The same policy, which never prunes these positions of a prompt, nor the prompt's last tokens (policy_for_prompt). If the run uses no
  /// template, it is `pruned()`.
  named_policy pruned_except(const position_spans& kept) const;
  /// From now on `pruned()` is `pruned_except(kept)`.
  void keep(const position_spans& kept) { pruned_ = pruned_except(kept); }
  const named_policy& dense() const { return dense_; }
  any_session new_session(const named_policy& policy) const;

  /// Returns the ids of --ids if the flag is given. Otherwise encodes the text, in the chat template if the run uses one. Without a
  /// template, `kept` is empty. Throws `error` if the model has no tokenizer or the template refuses the chat.
  chat_prompt prompt(const std::string& text) const;

  /// The chat as the model's template writes it. The run must use a template. Throws `error` if the template refuses the chat.
  rendered_chat rendered(const chat_request& chat) const { return chat_->render(chat); }

  /// Throws `error` if the prompt is empty or does not fit into the context. `which` names the prompt, if there are several.
  void check_length(std::span<const token_id> prompt, const std::string& which = {}) const;

  /// True if the run generates a token. Otherwise it does not read the prompt either.
  bool generates() const { return flags_.predict > 0 || !flags_.force.empty(); }

  /// Loads the weights, and warms up unless the prompt is empty. To warm up, the dense model reads the prompt's first tokens, at most 64,
  /// and generates at most four. This starts the threads and brings the code into memory before times are measured. Without --json, first
  /// prints how much memory the run will take. If that is too much, throws `error` (no_memory) before anything is loaded, unless
  /// --force-memory is given. `more`: further tokens of the prompt, of which only the number is known. Returns false after Ctrl-C.
  bool load(std::span<const token_id> prompt, std::size_t more = 0);

  /// The number of tokens that a prompt of this length and its answer are expected to have.
  std::size_t expected_length(std::size_t prompt) const;

  /// Returns the options of a generation under the run's flags. Ctrl-C ends the generation.
  generation_options options();

  /// Answers the prompt by calling `generate` with the options. `known`: tokens of the prompt that were read before. If `show`, writes the
  /// answer to stdout as it is generated. If Ctrl-C came before the call, the answer is empty. A later Ctrl-C cuts it short.
  outcome answer(const named_policy& policy, std::span<const token_id> prompt, std::size_t known, bool show,
                 const std::function<generation(const generation_options&)>& generate);

  /// Returns the keys with which the run's JSON begins.
  run_heading heading() const;

 private:
  /// The ids of plain text. Throws `error` if the model has no tokenizer.
  std::vector<token_id> encode(const std::string& text) const;

  /// Returns the text that the decoder can write after this id. An id that only the model has, and not its tokenizer, is a filler without a
  /// text.
  std::string decode(token_decoder& decoder, token_id id) const { return id < tokens_->size() ? decoder.push(id) : ""; }

  run_flags flags_;
  const policy_registry& policies_;
  opened_model model_;
  chosen_policy chosen_;
  named_policy pruned_, dense_;
  model_words words_;
  const tokenizer* tokens_ = nullptr;
  std::vector<token_id> ends_;      // an answer ends at any of these tokens; empty: at the end tokens of the config
  std::optional<chat_words> chat_;  // the template around the prompt; none: the prompt is plain text
  std::size_t context_ = 0;
  std::unique_ptr<lazyprune::program::engine> engine_;  // null before `load`
  std::optional<warm_up> warm_up_;
  ends_when_interrupted interrupts_;
};

}  // namespace program
}  // namespace lazyprune
