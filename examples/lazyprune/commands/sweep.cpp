// SPDX-License-Identifier: MIT
// The outer loop is over samples, the inner one over settings. The first samples of all files come before the second ones. If the
// sweep ends early, all files therefore have almost the same number of samples. Each sample begins with another setting than the sample
// before, so that all settings suffer alike when the machine becomes slower.
// Each prediction is written to a file before the next question is asked.
#include "commands/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <optional>
#include <utility>

#include "models/sessions.hpp"
#include "pages/sweep_page.hpp"
#include "questions/prediction_log.hpp"
#include "questions/recorded_prediction.hpp"
#include "questions/results.hpp"
#include "questions/run_results.hpp"
#include "questions/runner.hpp"
#include "tables/sweep_table.hpp"
#include "terminal/interrupts.hpp"

#include <lazyprune/eval/pooled.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {
namespace {

/// A setting under one of its seeds. Each sample is asked once for each `repeat`, in the order of recorded_sample::asks.
struct repeat {
  eval_setting setting;
  std::size_t seed;  // 0 for a method that does not draw
  std::string name;  // the method's name in the file of predictions
};

class sweeping {
 public:
  sweeping(const sweep_flags& flags, const policy_registry& policies)
      : flags_(flags), run_(flags.model, flags.backend, flags.questions, policies) {
    record_ = run_.record("sweep", flags.parts.which());
    add_methods();
    const std::size_t in_table = repeats_.size();
    if (flags.sensitivity > 0) add_single_stages();
    for (std::size_t q = 0; q < record_.samples.size(); ++q) add_asks(q, is_timed(q), in_table);
    mine_ = samples_to_answer<recorded_prediction>(record_, flags.directory, flags.parts.finished);
    std::vector<ask> all;  // the file may also have answers of other parts, if the number of parts was changed
    for (const auto& [q, a] : record_.in_order()) {
      all.push_back({q, setting_of(repeats_[a], q), repeats_[a].name, is_timed(q)});
      if (mine_[q]) asks_.push_back(all.back());
    }
    if (flags.timed > 0) {
      std::vector<eval_setting> settings;
      for (std::size_t i = 0; i < in_table; ++i) settings.push_back(repeats_[i].setting);
      run_.share(settings);
    }
    make_directory(flags.directory);
    log_.emplace(run_, file_in(flags.directory, recorded_prediction::file_name), flags.resume);
    log_->take_up(all);
    log_->go_with({flags.directory, recorded_prediction::file_name, record_});
  }

  void run() {
    answer(
        run_, *log_, asks_, 1, "sweeping", [&](std::span<const ask> asked) { return run_.predict(asked); },
        flags_.minutes > 0 ? &until_ : nullptr);
    const auto all = static_cast<std::size_t>(std::ranges::count(mine_, true));
    std::vector<bool> answered;  // for each sample: whether it was answered under every setting
    for (std::size_t q = 0; q < mine_.size(); ++q) answered.push_back(mine_[q] && is_whole(q));
    const auto whole = static_cast<std::size_t>(std::ranges::count(answered, true));
    if (whole == all)
      log_->commit();
    else
      std::cerr << "--minutes were over after " << whole << " of " << all << " samples; --resume continues" << std::endl;
    run_.tell_of_cut_prompts();
    if (!flags_.parts.part)
      show_sweep(
          record_, [&](const run_place& place) { return answered[place.sample] ? find(place) : nullptr; }, flags_.directory);
    else if (whole == all)
      tell_of_part(record_, whole);
  }

 private:
  bool is_timed(std::size_t question) const { return flags_.timed == 0 || run_.questions()[question].number <= flags_.timed; }

  const eval_prediction* find(const run_place& place) const { return log_->find(place.sample, repeats_[place.ask].name); }

  bool is_whole(std::size_t sample) const {
    for (std::size_t a = 0; a < record_.samples[sample].asks.size(); ++a)
      if (!find({sample, a})) return false;
    return true;
  }

  void add(std::vector<eval_setting> seeds, std::optional<stage> single = {}) {
    const eval_setting& first = seeds.front();
    std::string policy = first.description(layers_, run_.policies());
    if (draws(first)) policy += " (seeds 0 to " + std::to_string(seeds.size() - 1) + " of the first sample, then the next ones)";
    record_.settings.push_back({first.method, first.budget, policy, single, seeds.size()});
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
      const std::string name = seeds[seed].text() + ": " + seeds[seed].description(layers_, run_.policies());
      repeats_.push_back({std::move(seeds[seed]), seed, name});
    }
  }

  /// Records under which settings the sample is asked.
  void add_asks(std::size_t question, bool timed, std::size_t in_table) {
    const std::size_t asks = run_.questions()[question].number <= flags_.sensitivity ? repeats_.size() : in_table;
    recorded_sample& sample = record_.samples[question];
    sample.asked = run_.how_asked(question, timed);
    for (std::size_t a = 0; a < asks; ++a) {
      const std::string asked = setting_of(repeats_[a], question).description(layers_, run_.policies()) + sample.asked;
      sample.asks.push_back(
          ask_digest(record_.model, repeats_[a].name, asked, sample.id, run_.questions()[question].sample.answers, false));
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

  sweep_flags flags_;
  time_limit until_{flags_.minutes};
  runner run_;
  model_layers layers_ = layers_of(run_.model().config());
  run_record record_;
  std::vector<repeat> repeats_;  // dense first
  std::vector<bool> mine_;       // for each sample: whether this process answers it
  std::vector<ask> asks_;        // in the order in which they are made
  std::optional<prediction_log> log_;
};

/// Summarizes a setting on a task, over the samples for which `counts` is true. Samples without answers are left out. The runs of one
/// sample under several seeds are pooled, and the sample's cost also has the times of its dense run. Returns nullopt if no sample is left.
std::optional<eval_summary> setting_summary(const run_record& record, const found_prediction& find, std::size_t setting,
                                            const std::string& task_name, const std::function<bool(const recorded_sample&)>& counts) {
  const eval_task& task = recorded_task(task_name);
  const recorded_setting& of = record.settings[setting];
  const std::size_t first = record.first_ask(setting);
  std::vector<eval_prediction> predictions;
  std::vector<double> scores, dense_scores;
  for (std::size_t q = 0; q < record.samples.size(); ++q) {
    const recorded_sample& sample = record.samples[q];
    if (sample.task != task_name || sample.asks.size() < first + of.repeats || !counts(sample) || !find({q, 0})) continue;
    std::vector<eval_prediction> runs;
    for (std::size_t k = 0; k < of.repeats; ++k) runs.push_back(*find({q, first + k}));
    auto [prediction, score] = pooled(task, runs);
    const eval_prediction& dense = *find({q, 0});
    prediction.cost->dense_ttft_s = dense.cost->ttft_s;
    prediction.cost->dense_total_s = dense.cost->total_s;
    predictions.push_back(std::move(prediction));
    scores.push_back(score);
    dense_scores.push_back(score_of(task, dense));
  }
  if (scores.empty()) return std::nullopt;
  const std::string method = eval_setting{.method = of.method, .budget = of.budget}.text();
  eval_summary result = summary_of(task, method, predictions, scores);
  if (setting > 0) result.lost = loss_of(dense_scores, scores);
  return result;
}

sweep_table sweep_table_of(const run_record& record, const found_prediction& find) {
  sweep_table out{.model = record.name, .layers = record.layers, .entries = {}, .sensitivity = {}, .sensitivity_dense = {}};
  const std::vector<std::string> tasks = record.tasks();
  const auto any = [](const recorded_sample&) { return true; };
  for (std::size_t s = 0; s < record.settings.size(); ++s)
    for (const std::string& task : tasks) {
      const recorded_setting& of = record.settings[s];
      if (auto result = setting_summary(record, find, s, task, any); result && of.single)
        out.sensitivity.push_back({of.single->after, of.single->share, of.policy, *std::move(result)});
      else if (result)
        out.entries.push_back({of.method, of.budget, of.policy, *std::move(result)});
    }
  const auto under_single_stages = [&](const recorded_sample& sample) { return sample.asks.size() > record.asks_of_all(); };
  for (const std::string& task : tasks)
    if (auto dense = setting_summary(record, find, 0, task, under_single_stages); dense) out.sensitivity_dense.push_back(*std::move(dense));
  return out;
}

}  // namespace

void show_sweep(const run_record& record, const found_prediction& find, const std::string& directory, table_format format) {
  const sweep_table table = sweep_table_of(record, find);
  write_whole(file_in(directory, "sweep.csv"), to_csv(table_of(table)));
  write_whole(file_in(directory, "report.html"), sweep_page(table));
  const std::string figure = sweep_figure(table), figure_file = file_in(directory, "accuracy.svg");
  if (!figure.empty())
    write_whole(figure_file, figure);
  else
    remove_file(figure_file);  // that of an earlier sweep
  std::cout << (format == table_format::md ? to_markdown(table) : text_of(table_of(table), format));
}

int sweep(const sweep_flags& flags, const policy_registry& policies) {
  remove_files_when_interrupted();
  sweeping(flags, policies).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
