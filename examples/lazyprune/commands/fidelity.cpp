// SPDX-License-Identifier: MIT
#include "commands/fidelity.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <unistd.h>

#include "engine/engine.hpp"
#include "models/model_choice.hpp"
#include "models/sessions.hpp"
#include "questions/comparison_file.hpp"
#include "questions/method.hpp"
#include "questions/prepared_prompt.hpp"
#include "questions/results.hpp"
#include "questions/run_results.hpp"
#include "questions/text_digest.hpp"
#include "tables/fidelity_table.hpp"
#include "terminal/interrupts.hpp"
#include "terminal/progress.hpp"
#include "words/model_words.hpp"
#include "words/prompt_text.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/compression.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

/// How much of a text is the prompt: a number of tokens, or a share of the text's tokens.
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

/// The dense model's results on a text. All settings are compared with them.
struct dense_run {
  std::vector<std::vector<float>> logits;  // the logits of each step over the text's own tokens
  std::vector<token_id> said;              // the tokens that the model generates
  double rows = 0;                         // the rows of the prefill
  double ttft_s = 0;
};

double sum_of(const std::vector<std::size_t>& rows) {
  return static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::size_t{0}));
}

class comparison {
 public:
  comparison(const fidelity_flags& flags, const policy_registry& policies)
      : flags_(flags),
        policies_(policies),
        model_(flags.model),
        context_(model_.context(flags.context)),
        length_(prompt_length::of(flags.prefix.value_or("0.5"))),
        settings_(settings()) {
    if (flags_.places > 0 && !length_.tokens)
      throw error("--prefix", "", "a number of tokens, with --places", flags_.prefix.value_or("none"));
    for (const eval_setting& setting : settings_) {
      descriptions_.push_back(setting.description(layers_of(model_.config()), policies_));
      if (draws(setting)) descriptions_.back() += " (seed 0 of the first text, then the next ones)";
    }
    check(flags_.backend);
    const model_words words(model_);
    const tokenizer& tokens = words.tokenizer_for("fidelity");
    for (const std::string& file : flags_.texts) add_texts(file, tokens);
  }

  void run() {
    const run_record record = recorded();
    const std::vector<bool> mine = samples_to_answer<recorded_comparison>(record, flags_.directory, flags_.parts.finished);
    open_file(record);
    const std::vector<std::vector<std::size_t>> open = asks_without_result(record, mine);
    if (const auto asks =
            std::accumulate(open.begin(), open.end(), std::size_t{0}, [](std::size_t n, const auto& of) { return n + of.size(); });
        asks > 0)
      compare(record, open, asks);
    if (record_) record_->write();
    if (file_) file_->commit();
    if (flags_.parts.part)
      tell_of_part(record, static_cast<std::size_t>(std::ranges::count(mine, true)));
    else
      show_fidelity(
          record, [&](const run_place& place) { return &results_.at(record.samples[place.sample].asks[place.ask]); }, flags_.output);
  }

 private:
  static constexpr std::size_t default_steps = 128;

  /// The settings to compare; without methods, one setting without a name.
  std::vector<eval_setting> settings() const {
    if (!flags_.compares_methods()) return {{.method = "", .policy = policy_with_note(flags_.policy, model_, policies_).spec}};
    const kept_tokens kept{flags_.policy.keep_first.value_or(0), flags_.policy.keep_last.value_or(0)};
    method_flags methods = flags_.methods;
    methods.variants = with_pruning_files(std::move(methods.variants), model_);
    std::vector<eval_setting> all = settings_of(methods, kept, model_.layers(), stages::parse(model_.stages_to_compare()));
    all.erase(all.begin());  // dense: the others are compared with it
    if (all.empty()) throw error("--methods", "", "a method to compare with dense", "dense alone");
    return all;
  }

  /// Each text has a seed of its own.
  eval_setting setting_of(std::size_t setting, std::size_t text) const { return with_seed(settings_[setting], text); }

  run_record recorded() const {
    run_record record{.command = "fidelity",
                      .model = well_formed(model_.path().string()),
                      .name = well_formed(model_name(model_.path())),
                      .fingerprint = model_.identity(),
                      .layers = model_.layers(),
                      .part = flags_.parts.which()};
    for (std::size_t s = 0; s < settings_.size(); ++s)
      record.settings.push_back({.method = settings_[s].method, .budget = settings_[s].budget, .policy = descriptions_[s]});
    for (std::size_t t = 0; t < texts_.size(); ++t) {
      const split_text& text = texts_[t];
      text_digest digest;  // of the tokens alone: the file may have another path on another machine
      for (const std::vector<token_id>* ids : {&text.prompt, &text.rest}) digest.add(std::to_string(ids->size()));
      for (const std::vector<token_id>* ids : {&text.prompt, &text.rest})
        for (const token_id id : *ids) digest.add(std::to_string(id));
      const std::string asked = " -c " + std::to_string(context_) + how_computed(flags_.backend) + ", model " + record.fingerprint;
      recorded_sample sample{"", text.name, t + 1, "", asked, digest.value()};
      for (std::size_t s = 0; s < settings_.size(); ++s)
        sample.asks.push_back(ask_digest(record.model, settings_[s].text(),
                                         setting_of(s, t).description(layers_of(model_.config()), policies_) + sample.asked,
                                         hex_text(digest.value()), {}, true));
      record.samples.push_back(std::move(sample));
    }
    return record;
  }

  /// Opens the file of comparisons, if a folder is given, and takes up the results of an earlier run.
  void open_file(const run_record& record) {
    if (flags_.directory.empty()) return;
    make_directory(flags_.directory);
    const std::string path = file_in(flags_.directory, recorded_comparison::file_name);
    file_.emplace(path, flags_.resume);
    std::unordered_map<std::uint64_t, std::size_t> known;
    for (const recorded_sample& sample : record.samples)
      for (const std::uint64_t ask : sample.asks) ++known[ask];
    for (const recorded_comparison& done : file_->done()) {
      if (!known.contains(done.ask))
        throw error(path, "comparison " + std::to_string(results_.size() + 1), "one of these texts, settings and flags", "another");
      results_.emplace(done.ask, done.value);
    }
    record_.emplace(flags_.directory, recorded_comparison::file_name, record);
  }

  /// Returns for each text the settings that are still to be compared.
  std::vector<std::vector<std::size_t>> asks_without_result(const run_record& record, const std::vector<bool>& mine) const {
    std::vector<std::vector<std::size_t>> open(texts_.size());
    for (const auto& [t, s] : record.in_order())
      if (mine[t] && !results_.contains(record.samples[t].asks[s])) open[t].push_back(s);
    return open;
  }

  void compare(const run_record& record, const std::vector<std::vector<std::size_t>>& open, std::size_t asks) {
    engine_ = load_engine(flags_.backend, model_);
    const std::string timed_on = how_timed(flags_.backend, engine_->threads());
    if (file_)
      for (std::size_t i = 0; i < file_->done().size(); ++i)
        check_timed_alike(file_in(flags_.directory, recorded_comparison::file_name), "comparison " + std::to_string(i + 1), timed_on,
                          file_->done()[i].timed_on);
    warm_up();
    progress_bar bar("comparing");
    std::size_t done = 0;
    for (std::size_t t = 0; t < texts_.size(); ++t) {
      if (open[t].empty()) continue;
      bar.show(done, asks);
      const dense_run dense = read_by_dense(texts_[t]);
      for (const std::size_t s : open[t]) {
        bar.show(done++, asks);
        const std::uint64_t ask = record.samples[t].asks[s];
        const text_fidelity result = compared(texts_[t], setting_of(s, t), dense);
        if (record_) record_->write();
        if (file_) file_->add({ask, result, timed_on});
        results_.insert_or_assign(ask, result);
      }
    }
  }

  /// Adds the file's text, or the passages that --places asks for.
  void add_texts(const std::string& file, const tokenizer& tokens) {
    const std::string name = file == "-" ? "stdin" : well_formed(file);
    const std::vector<token_id> ids = tokens.encode(read_prompt(file));
    if (flags_.places > 0)
      add_places(name, ids, tokens.bos());
    else
      texts_.push_back(split(name, ids));
  }

  /// Cuts passages out of the tokens of the whole text, the first at its beginning and the last at its end. If the text begins with BOS,
  /// each passage begins with BOS and has one token of the text less.
  void add_places(const std::string& name, std::span<const token_id> ids, std::optional<token_id> bos) {
    const std::size_t begin = bos && !ids.empty() && ids.front() == *bos ? 1 : 0;
    const std::size_t size = std::min(*length_.tokens, context_) + steps() - begin, between = flags_.places - 1;
    // Prompts may overlap, but no token is compared twice.
    if (const std::size_t least = begin + size + between * steps(); ids.size() < least)
      throw error(name, "", "at least " + std::to_string(least) + " tokens for --places " + std::to_string(flags_.places),
                  std::to_string(ids.size()));
    for (std::size_t k = 0; k < flags_.places; ++k) {
      const std::size_t first = begin + (between > 0 ? k * (ids.size() - begin - size) / between : 0);
      std::vector<token_id> place(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(begin));
      const auto tokens = ids.subspan(first, size);
      place.insert(place.end(), tokens.begin(), tokens.end());
      texts_.push_back(split(name + ": token " + std::to_string(first), place));
    }
  }

  std::size_t steps() const { return std::min(flags_.predict > 0 ? flags_.predict : default_steps, context_); }

  /// Splits a text into the prompt and at most steps() tokens to compare after it. Leaves out tokens that do not fit into the context.
  split_text split(const std::string& name, std::span<const token_id> all) const {
    const std::span<const token_id> ids = all.first(std::min(all.size(), context_));
    if (ids.size() < 2) throw error(name, "", "at least 2 tokens", std::to_string(ids.size()));
    const std::size_t prompt = length_.tokens ? *length_.tokens : std::min(share_of(length_.share, ids.size()), ids.size() - 1);
    if (prompt >= ids.size())
      throw error(name, "", "more tokens than the " + std::to_string(prompt) + " of --prefix", std::to_string(ids.size()));
    const auto rest = ids.subspan(prompt).first(std::min(steps(), ids.size() - prompt));
    return {name, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)}, {rest.begin(), rest.end()}};
  }

  /// Two continuations of a prompt: `forced` reads the text's own tokens, and `said` reads the tokens that the model generates.
  struct continuations {
    generation forced, said;
  };

  /// Continues `prompt`, which replaces the text's own prompt, by as many tokens as the text has after its prompt.
  continuations read(const policy_spec& policy, std::span<const token_id> prompt, const split_text& text,
                     const std::function<void(std::span<const float>)>& on_forced_logits, const std::function<bool(token_id)>& on_said) {
    generation_options options;
    options.max_new = text.rest.size();
    options.context = text.prompt.size() + text.rest.size();
    generation_options forced = options;
    forced.force = text.rest;
    forced.on_logits = on_forced_logits;
    options.on_token = on_said;
    std::vector<generation> made =
        engine_->generate_alternatives(new_session(policy, model_.config(), policies_), prompt, std::array{forced, options});
    return {std::move(made[0]), std::move(made[1])};
  }

  /// Starts the threads and brings the code into memory before a clock runs.
  void warm_up() {
    constexpr std::size_t enough = 64;
    split_text text = texts_.front();
    text.prompt.resize(std::min(enough, text.prompt.size()));
    text.rest.resize(1);
    read(dense_, text.prompt, text, {}, {});
  }

  dense_run read_by_dense(const split_text& text) {
    dense_run dense;
    continuations made =
        read(dense_, text.prompt, text, [&](std::span<const float> l) { dense.logits.emplace_back(l.begin(), l.end()); }, {});
    dense.said = std::move(made.said.tokens);
    dense.rows = sum_of(made.forced.cost.prefill_rows);
    dense.ttft_s = made.forced.prefill_seconds;
    return dense;
  }

  text_fidelity compared(const split_text& text, const eval_setting& setting, const dense_run& dense) {
    text_fidelity result;
    result.text = text.name;
    result.prompt_tokens = text.prompt.size();

    const std::size_t whole = text.prompt.size() + text.rest.size();
    const prepared_prompt prompt = prepared(text.prompt, {0, text.prompt.size()}, setting, whole, *engine_);
    const auto compare_step = [&](std::span<const float> logits) {
      const std::size_t step = result.steps.size();
      result.steps.push_back(fidelity_of(dense.logits[step], logits, text.rest[step]));
    };
    std::size_t at = 0;
    const auto until_parted = [&](token_id id) { return id == dense.said[at++]; };
    const continuations made = read(prompt.policy, prompt.tokens, text, compare_step, until_parted);

    result.parted_at = first_difference(dense.said, made.said.tokens);
    result.rows = (sum_of(made.forced.cost.prefill_rows) + static_cast<double>(setting.look * text.prompt.size())) / dense.rows;
    result.ttft_s = prompt.seconds + made.forced.prefill_seconds;
    result.dense_ttft_s = dense.ttft_s;
    return result;
  }

  const policy_spec dense_ = dense_spec();
  fidelity_flags flags_;
  const policy_registry& policies_;
  opened_model model_;
  std::size_t context_;
  prompt_length length_;
  std::vector<eval_setting> settings_;
  std::vector<std::string> descriptions_;  // (settings)
  std::vector<split_text> texts_;
  std::unique_ptr<engine> engine_;
  std::optional<comparison_file> file_;
  std::optional<record_file> record_;
  std::unordered_map<std::uint64_t, text_fidelity> results_;  // by recorded_sample::asks
};

}  // namespace

void show_fidelity(const run_record& record, const std::function<const text_fidelity*(const run_place&)>& find, table_format format) {
  std::vector<fidelity_entry> entries;
  for (std::size_t s = 0; s < record.settings.size(); ++s) {
    const recorded_setting& setting = record.settings[s];
    std::vector<text_fidelity> results;
    for (std::size_t t = 0; t < record.samples.size(); ++t) {
      results.push_back(*find({t, s}));
      results.back().text = record.samples[t].file;  // the result may come from a run that had another path to this text
    }
    const auto add = [&](std::span<const text_fidelity> texts) {
      entries.push_back({setting.method, setting.budget, summary_of(texts, setting.policy)});
    };
    for (std::size_t t = 0; t < results.size(); ++t) add(std::span(results).subspan(t, 1));
    if (results.size() > 1) add(results);
  }
  std::cout << (format == table_format::md ? to_markdown(entries) : text_of(table_of(entries), format));
}

int fidelity(const fidelity_flags& flags, const policy_registry& policies) {
  remove_files_when_interrupted();
  comparison(flags, policies).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
