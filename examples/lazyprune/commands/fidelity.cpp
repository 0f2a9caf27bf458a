// SPDX-License-Identifier: MIT
// lazyprune eval --fidelity: how near a pruned model stays to the dense one, on texts without labels.

#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

#include <unistd.h>

#include "commands/flags.hpp"
#include "engine/engine.hpp"
#include "engine/model_choice.hpp"
#include "engine/sessions.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/io/read_to_end.hpp>
#include "tables/fidelity_table.hpp"

namespace lazyprune {
namespace program {
namespace {

/// How much of a text is the prompt: a number of tokens, or a share of them.
struct prompt_length {
  std::optional<std::size_t> tokens;
  double share = 0;

  static prompt_length of(const std::string& text) {
    const auto count = lazyprune::number_in<std::size_t>(text);
    const auto share = lazyprune::number_in<double>(text);
    if (count && *count > 0) return {.tokens = count};
    if (share && *share > 0 && *share < 1) return {.tokens = {}, .share = *share};
    throw lazyprune::error("--prefix", "", "a share between 0 and 1 or a number of tokens", text);
  }
};

struct split_text {
  std::string name;
  std::vector<token_id> prompt, rest;
};

class comparison {
 public:
  explicit comparison(const eval_flags& flags)
      : flags_(flags),
        model_(open_model(flags.model)),
        pruned_(with_recommended_stages(flags.policy, model_)),
        policy_(lazyprune::text(pruned_, static_cast<lazyprune::layer_id>(model_.config().layers), policies())) {
    check(flags_.backend);
    const auto tokens = model_.load_tokenizer();
    if (!tokens)
      throw lazyprune::error("--fidelity", "", "a model with a tokenizer", "no tokenizer.model in " + model_.directory().string());
    const std::size_t most = model_.config().max_positions;
    if (flags.questions.context > most)
      throw lazyprune::error("--ctx-size", "", "at most the model's " + std::to_string(most), std::to_string(flags.questions.context));
    const prompt_length length = prompt_length::of(flags.prefix.value_or("0.5"));
    for (const std::string& file : flags.texts)
      texts_.push_back(split(file, *tokens, flags.questions.context > 0 ? flags.questions.context : most, length));
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
  split_text split(const std::string& file, const lazyprune::tokenizer& tokens, std::size_t context, prompt_length length) const {
    const std::string name = file == "-" ? "stdin" : file;
    const std::string text = file == "-" ? lazyprune::read_to_end(STDIN_FILENO, name) : lazyprune::read_to_end(file);
    const std::vector<token_id> all = tokens.encode(text);
    const std::span<const token_id> ids = std::span(all).first(std::min(all.size(), context));
    if (ids.size() < 2) throw lazyprune::error(name, "", "at least 2 tokens", std::to_string(ids.size()));
    const std::size_t prompt = length.tokens ? *length.tokens : std::min(lazyprune::share_of(length.share, ids.size()), ids.size() - 1);
    if (prompt >= ids.size())
      throw lazyprune::error(name, "", "more tokens than the " + std::to_string(prompt) + " of --prefix", std::to_string(ids.size()));
    const auto rest =
        ids.subspan(prompt).first(std::min(flags_.questions.predict > 0 ? flags_.questions.predict : default_steps, ids.size() - prompt));
    return {name, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)}, {rest.begin(), rest.end()}};
  }

  lazyprune::generation generate(const lazyprune::policy_spec& policy, const split_text& text, lazyprune::generation_options options) {
    lazyprune::any_session session = new_session(policy, model_.config().layers);
    options.max_new = text.rest.size();
    options.context = text.prompt.size() + text.rest.size();
    return engine_->generate(std::move(session), text.prompt, options);
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

    lazyprune::generation_options forced;
    forced.force = text.rest;
    std::vector<std::vector<float>> dense_logits;  // the one run whose logits are kept
    forced.on_logits = [&](std::span<const float> logits) { dense_logits.emplace_back(logits.begin(), logits.end()); };
    const lazyprune::generation dense_read = generate(dense_, text, forced);
    forced.on_logits = [&](std::span<const float> logits) {
      const std::size_t step = result.steps.size();
      result.steps.push_back(lazyprune::fidelity_of(dense_logits[step], logits, text.rest[step]));
      dense_logits[step] = {};
    };
    const lazyprune::generation read = generate(pruned_, text, forced);
    // The pruned model comes first now: what drifts, drifts for both.
    const lazyprune::generation said = generate(pruned_, text, {});
    const lazyprune::generation dense_said = generate(dense_, text, {});

    result.parted_at = lazyprune::first_difference(dense_said.tokens, said.tokens);
    const auto sum = [](const std::vector<std::size_t>& rows) {
      return static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::size_t{0}));
    };
    result.rows = sum(read.cost.prefill_rows) / sum(read.cost.prefill_dense_rows);
    result.ttft_s = (read.prefill_seconds + said.prefill_seconds) / 2;
    result.dense_ttft_s = (dense_read.prefill_seconds + dense_said.prefill_seconds) / 2;
    return result;
  }

  const lazyprune::policy_spec dense_{.preset = "dense"};
  eval_flags flags_;
  lazyprune::checkpoint model_;
  lazyprune::policy_spec pruned_;
  std::string policy_;
  std::vector<split_text> texts_;
  std::unique_ptr<engine> engine_;
};

}  // namespace

int fidelity(const eval_flags& flags) {
  const auto refuse = [](bool given, std::string_view flag) {
    if (given) throw lazyprune::error(flag, "", "a run without --fidelity, which takes texts and no tasks", "--fidelity");
  };
  refuse(!flags.questions.data.empty(), "--data");
  refuse(!flags.predictions.empty(), "--predictions");
  refuse(!flags.questions.task.empty(), "--task");
  refuse(!flags.method.empty(), "--method");
  refuse(flags.questions.chat != "none", "--chat");
  refuse(flags.questions.limit > 0, "--limit");
  refuse(flags.questions.max_length > 0, "--max-length");
  refuse(!flags.predicted.empty() || flags.resume, "--out");
  refuse(flags.compare, "--compare");
  refuse(flags.questions.strict, "--strict");
  if (flags.texts.empty()) throw lazyprune::error("--fidelity", "", "texts, by -f FILE", "none");
  const std::vector<fidelity_summary> summaries = comparison(flags).run();
  std::cout << (flags.output == table_format::md ? to_markdown(summaries) : text_of(table_of(summaries), flags.output));
  return 0;
}

}  // namespace program
}  // namespace lazyprune
