// SPDX-License-Identifier: MIT
// The outer loop is over samples, the inner one over settings. The first samples of all files come before the second ones. If the
// sweep ends early, all files therefore have almost the same number of samples. Each sample begins with another setting than the sample
// before, so that all settings suffer alike when the machine becomes slower.
// Each prediction is written to a file before the next question is asked.
#include "commands/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "models/sessions.hpp"
#include "pages/sweep_page.hpp"
#include "questions/prediction_log.hpp"
#include "questions/results.hpp"
#include "questions/runner.hpp"
#include "tables/sweep_table.hpp"

#include <lazyprune/eval/pooled.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {
namespace {

/// A setting that has its own lines in the tables, one for each task.
struct candidate {
  eval_setting setting;  // with the first seed, if the method draws at random
  std::string policy;
  std::optional<stage> single{};  // the single stage of --sensitivity
};

/// A candidate under one of its seeds. Each sample is run once for each `repeat`.
struct repeat {
  std::size_t of;  // index of the candidate
  eval_setting setting;
  std::size_t seed;  // 0 for a method that does not draw
  std::string name;  // the method's name in the file of predictions
};

class sweeping {
 public:
  sweeping(const sweep_flags& flags, const policy_registry& policies)
      : flags_(flags), run_(flags.model, flags.backend, flags.questions, policies), whole_(run_.questions().size(), true) {
    add_methods();
    const std::size_t in_table = repeats_.size();
    if (flags.sensitivity > 0) add_single_stages();
    std::vector<std::size_t> order(run_.questions().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t q) { return run_.questions()[q].number; });
    for (const std::size_t q : order) {
      const auto add = [&](std::size_t first, std::size_t n) {
        for (std::size_t k = 0; k < n; ++k) {
          const repeat& next = repeats_[first + (k + q) % n];
          asks_.push_back({q, setting_of(next, q), next.name, flags.timed == 0 || run_.questions()[q].number <= flags.timed});
        }
      };
      add(0, in_table);
      if (run_.questions()[q].number <= flags.sensitivity) add(in_table, repeats_.size() - in_table);
    }
    if (flags.timed > 0) {
      std::vector<eval_setting> settings;
      for (std::size_t i = 0; i < in_table; ++i) settings.push_back(repeats_[i].setting);
      run_.share(settings);
    }
    make_directory(flags.directory);
    log_.emplace(run_, file_in(flags.directory, "predictions.jsonl"), flags.resume);
    log_->take_up(asks_);
  }

  sweep_table run() {
    answer(
        run_, *log_, asks_, 1, "sweeping", [&](std::span<const ask> asked) { return run_.predict(asked); },
        flags_.minutes > 0 ? &until_ : nullptr);
    for (const ask& asked : asks_)
      if (!log_->find(asked.question, asked.name)) whole_[asked.question] = false;
    if (const auto whole = std::ranges::count(whole_, true); static_cast<std::size_t>(whole) == whole_.size())
      log_->commit();
    else
      std::cerr << "--minutes were over after " << whole << " of " << whole_.size() << " samples; --resume continues" << std::endl;
    run_.tell_of_cut_prompts();
    return table();
  }

 private:
  void add(std::vector<eval_setting> seeds, std::optional<stage> single = {}) {
    const eval_setting& first = seeds.front();
    std::string policy = first.description(layers_, run_.policies());
    if (draws(first)) policy += " (seeds 0 to " + std::to_string(seeds.size() - 1) + " of the first sample, then the next ones)";
    candidates_.push_back({first, policy, single});
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
      const std::string name = seeds[seed].text() + ": " + seeds[seed].description(layers_, run_.policies());
      repeats_.push_back({candidates_.size() - 1, std::move(seeds[seed]), seed, name});
    }
  }

  /// Each sample has seeds of its own.
  eval_setting setting_of(const repeat& of, std::size_t question) const { return with_seed(of.setting, of.seed + question * flags_.seeds); }

  void add_methods() {
    const stages recommended = stages::parse(run_.model().stages_to_compare());
    method_flags methods = flags_.methods;
    methods.variants = with_pruning_files(std::move(methods.variants), run_.model());
    for (const eval_setting& setting : settings_of(methods, flags_.kept, run_.layers(), recommended)) {
      std::vector<eval_setting> seeds;
      for (std::size_t seed = 0; seed < (draws(setting) ? flags_.seeds : 1); ++seed) seeds.push_back(with_seed(setting, seed));
      add(std::move(seeds));
    }
  }

  /// Adds candidates with a single stage, five shares for each place. The places are after each layer but the last. A model with more than
  /// nine layers has eight evenly spaced places. Places after layers without attention scores are skipped.
  void add_single_stages() {
    constexpr layer_id most = 8;
    const layer_id layers = run_.layers(), n = std::min(layers - 1, most);
    for (layer_id k = 1; k <= n; ++k) {
      const auto after = static_cast<layer_id>(std::lround(static_cast<double>(k) * layers / (n + 1)));
      if (!layers_.scores_attention_after(after)) continue;
      for (const double share : {0.9, 0.7, 0.5, 0.3, 0.1})
        add({keeping(one_stage(after, share, layers), flags_.kept)}, stage{after, share});
    }
  }

  /// Summarizes candidate `c` on a task, over the first `limit` samples of each file. Samples that lack an answer to any ask are left out.
  /// The runs of one sample under several seeds are pooled, and the sample's cost also has the times of its dense run. Returns nullopt if
  /// no sample is left.
  std::optional<eval_summary> summary(std::size_t c, const eval_task& task, std::size_t limit) const {
    std::vector<eval_prediction> predictions;
    std::vector<double> scores, dense_scores;
    for (const std::size_t q : run_.questions().of_task(task)) {
      if (run_.questions()[q].number > limit || !whole_[q]) continue;
      std::vector<eval_prediction> runs;
      for (const repeat& r : repeats_)
        if (const eval_prediction* made = r.of == c ? log_->find(q, r.name) : nullptr) runs.push_back(*made);
      if (runs.empty()) continue;
      auto [prediction, score] = pooled(task, runs);
      const eval_prediction& dense = *log_->find(q, repeats_.front().name);
      prediction.cost->dense_ttft_s = dense.cost->ttft_s;
      prediction.cost->dense_total_s = dense.cost->total_s;
      predictions.push_back(std::move(prediction));
      scores.push_back(score);
      dense_scores.push_back(score_of(task, dense));
    }
    if (scores.empty()) return std::nullopt;
    eval_summary result = summary_of(task, candidates_[c].setting.text(), predictions, scores);
    if (c > 0) result.lost = loss_of(dense_scores, scores);
    return result;
  }

  sweep_table table() const {
    sweep_table out{
        .model = model_name(run_.model().path()), .layers = run_.layers(), .entries = {}, .sensitivity = {}, .sensitivity_dense = {}};
    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    const std::vector<const eval_task*> tasks = run_.questions().tasks();
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      for (const eval_task* task : tasks) {
        const auto& [setting, policy, single] = candidates_[c];
        if (auto result = summary(c, *task, all); result && single)
          out.sensitivity.push_back({single->after, single->share, policy, *std::move(result)});
        else if (result)
          out.entries.push_back({setting.method, setting.budget, policy, *std::move(result)});
      }
    for (const eval_task* task : tasks)
      if (auto dense = summary(0, *task, flags_.sensitivity); dense && !out.sensitivity.empty())
        out.sensitivity_dense.push_back(*std::move(dense));
    return out;
  }

  sweep_flags flags_;
  time_limit until_{flags_.minutes};
  runner run_;
  model_layers layers_ = layers_of(run_.model().config());
  std::vector<candidate> candidates_;  // dense first
  std::vector<repeat> repeats_;        // dense first
  std::vector<ask> asks_;              // in the order in which they are made
  std::vector<bool> whole_;            // for each question: whether it was answered under every setting
  std::optional<prediction_log> log_;
};

}  // namespace

int sweep(const sweep_flags& flags, const policy_registry& policies) {
  const sweep_table table = sweeping(flags, policies).run();
  write_whole(file_in(flags.directory, "sweep.csv"), to_csv(table_of(table)));
  write_whole(file_in(flags.directory, "report.html"), sweep_page(table));
  if (const std::string figure = sweep_figure(table); !figure.empty()) write_whole(file_in(flags.directory, "accuracy.svg"), figure);
  std::cout << to_markdown(table);
  return 0;
}

}  // namespace program
}  // namespace lazyprune
