// SPDX-License-Identifier: MIT
#include "commands/fidelity.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <unistd.h>

#include "engine/engine.hpp"
#include "engine/model_choice.hpp"
#include "engine/model_words.hpp"
#include "engine/sessions.hpp"
#include "tables/fidelity_table.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/io/read_to_end.hpp>
#include <lazyprune/io/tokenizer.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {
namespace {

/// How much of a text is the prompt: a number of tokens, or a share of them.
struct prompt_length {
  std::optional<std::size_t> tokens;
  double share = 0;

  static prompt_length of(const std::string& text) {
    const auto count = number_in<std::size_t>(text);
    const auto share = number_in<double>(text);
    if (count && *count > 0) return {.tokens = count};
    if (share && *share > 0 && *share < 1) return {.tokens = {}, .share = *share};
    throw error("--prefix", "", "a share between 0 and 1 or a number of tokens", text);
  }
};

struct split_text {
  std::string name;
  std::vector<token_id> prompt, rest;
};

class comparison {
 public:
  comparison(const fidelity_flags& flags, const policy_registry& policies)
      : flags_(flags),
        policies_(policies),
        model_(flags.model),
        pruned_(with_recommended_stages(flags.policy, model_, policies)),
        policy_(flags_of(pruned_, layers_of(model_.config()), policies)) {
    check(flags_.backend);
    const model_words words(model_);
    const tokenizer& tokens = words.tokenizer_for(flags.asked);
    const std::size_t context = model_.context(flags.context);
    const prompt_length length = prompt_length::of(flags.prefix.value_or("0.5"));
    for (const std::string& file : flags.texts) texts_.push_back(split(file, tokens, context, length));
  }

  /// One a text, and one of all where there are several.
  std::vector<fidelity_summary> run() {
    engine_ = load_engine(flags_.backend, model_);
    warm_up();
    std::vector<text_fidelity> results;
    std::vector<fidelity_summary> summaries;
    progress_bar bar("comparing");
    for (const split_text& text : texts_) {
      bar.show(results.size(), texts_.size());
      results.push_back(compared(text));
      summaries.push_back(summary_of(std::span(results).last(1), policy_));
    }
    if (results.size() > 1) summaries.push_back(summary_of(results, policy_));
    return summaries;
  }

 private:
  static constexpr std::size_t default_steps = 128;

  /// What does not fit into the context is cut off at the end.
  split_text split(const std::string& file, const tokenizer& tokens, std::size_t context, prompt_length length) const {
    const std::string name = file == "-" ? "stdin" : file;
    const std::string text = file == "-" ? read_to_end(STDIN_FILENO, name) : read_to_end(file);
    const std::vector<token_id> all = tokens.encode(text);
    const std::span<const token_id> ids = std::span(all).first(std::min(all.size(), context));
    if (ids.size() < 2) throw error(name, "", "at least 2 tokens", std::to_string(ids.size()));
    const std::size_t prompt = length.tokens ? *length.tokens : std::min(share_of(length.share, ids.size()), ids.size() - 1);
    if (prompt >= ids.size())
      throw error(name, "", "more tokens than the " + std::to_string(prompt) + " of --prefix", std::to_string(ids.size()));
    const auto rest = ids.subspan(prompt).first(std::min(flags_.predict > 0 ? flags_.predict : default_steps, ids.size() - prompt));
    return {name, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)}, {rest.begin(), rest.end()}};
  }

  generation generate(const policy_spec& policy, const split_text& text, generation_options options) {
    options.max_new = text.rest.size();
    options.context = text.prompt.size() + text.rest.size();
    return engine_->generate(new_session(policy, model_.config(), policies_), text.prompt, options);
  }

  /// Threads started and the code in memory before a clock runs.
  void warm_up() {
    constexpr std::size_t enough = 64;
    const std::vector<token_id>& prompt = texts_.front().prompt;
    const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(std::min(enough, prompt.size()));
    generate(dense_, {.name = "", .prompt = {prompt.begin(), end}, .rest = {0}}, {});
  }

  text_fidelity compared(const split_text& text) {
    text_fidelity result;
    result.text = text.name;
    result.prompt_tokens = text.prompt.size();

    generation_options forced;
    forced.force = text.rest;
    std::vector<std::vector<float>> dense_logits;  // the one run whose logits are kept
    forced.on_logits = [&](std::span<const float> logits) { dense_logits.emplace_back(logits.begin(), logits.end()); };
    const generation dense_read = generate(dense_, text, forced);
    forced.on_logits = [&](std::span<const float> logits) {
      const std::size_t step = result.steps.size();
      result.steps.push_back(fidelity_of(dense_logits[step], logits, text.rest[step]));
      dense_logits[step] = {};
    };
    const generation read = generate(pruned_, text, forced);
    // The pruned model comes first now: what drifts, drifts for both.
    const generation said = generate(pruned_, text, {});
    const generation dense_said = generate(dense_, text, {});

    result.parted_at = first_difference(dense_said.tokens, said.tokens);
    const auto sum = [](const std::vector<std::size_t>& rows) {
      return static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::size_t{0}));
    };
    result.rows = sum(read.cost.prefill_rows) / sum(read.cost.prefill_dense_rows);
    result.ttft_s = (read.prefill_seconds + said.prefill_seconds) / 2;
    result.dense_ttft_s = (dense_read.prefill_seconds + dense_said.prefill_seconds) / 2;
    return result;
  }

  const policy_spec dense_ = dense_spec();
  fidelity_flags flags_;
  const policy_registry& policies_;
  opened_model model_;
  policy_spec pruned_;
  std::string policy_;
  std::vector<split_text> texts_;
  std::unique_ptr<engine> engine_;
};

}  // namespace

int fidelity(const fidelity_flags& flags, const policy_registry& policies) {
  const std::vector<fidelity_summary> summaries = comparison(flags, policies).run();
  std::cout << (flags.output == table_format::md ? to_markdown(summaries) : text_of(table_of(summaries), flags.output));
  return 0;
}

}  // namespace program
}  // namespace lazyprune
