// SPDX-License-Identifier: MIT
// lazyprune sweep: methods at budgets on a benchmark's questions, in one process. Samples come outside and settings inside, each sample
// beginning with the next setting, so that what drifts drifts for all alike; and each prediction is in a file before the next is made.

#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <system_error>

#include "commands/flags.hpp"
#include "questions/evaluator.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/eval/pooled.hpp>
#include <lazyprune/io/output_file.hpp>
#include <lazyprune/policy/presets.hpp>
#include "pages/sweep_page.hpp"
#include "questions/prediction_file.hpp"
#include "tables/sweep_table.hpp"

namespace lazyprune {
namespace program {
namespace {

/// A line of the table.
struct candidate {
  eval_setting setting;  // of its first seed
  std::string policy;
  std::optional<lazyprune::stage> single{};  // one stage of the sensitivity
};

/// What is run on a sample: a candidate, or one seed of it.
struct repeat {
  std::size_t of;  // candidate
  eval_setting setting;
  std::size_t seed;                                // of a method that draws
  std::string name;                                // in its predictions
  std::vector<std::optional<std::size_t>> places;  // (questions), in the file of predictions; none: not yet, or not asked
};

struct step {
  std::size_t question;
  std::size_t repeat;
};

std::string file_in(const std::string& directory, const std::string& name) { return (std::filesystem::path(directory) / name).string(); }

class sweeping {
 public:
  explicit sweeping(const sweep_flags& flags) : flags_(flags), model_(flags.model, flags.backend, flags.questions) {
    add_methods();
    const std::size_t in_table = repeats_.size();
    if (flags.sensitivity > 0) add_single_stages();
    for (std::size_t q = 0; q < model_.questions().size(); ++q) {
      const auto add = [&](std::size_t first, std::size_t n) {
        for (std::size_t k = 0; k < n; ++k) steps_.push_back({q, first + (k + q) % n});
      };
      add(0, in_table);
      if (model_.questions()[q].number <= flags.sensitivity) add(in_table, repeats_.size() - in_table);
    }
    std::error_code failure;
    std::filesystem::create_directories(flags.directory, failure);
    if (failure) throw lazyprune::error(flags.directory, "", "a directory, or a name for one", failure.message());
    file_.emplace(file_in(flags.directory, "predictions.jsonl"), flags.resume);
    take_up(file_->done());
  }

  sweep_table run() {
    if (done_ < steps_.size()) {
      model_.load();
      progress_bar bar("sweeping");
      bar.show(done_, steps_.size());
      std::vector<lazyprune::token_id> prompt;
      for (std::optional<std::size_t> encoded; done_ < steps_.size(); bar.show(done_, steps_.size())) {
        const auto [q, r] = steps_[done_];
        const question& asked = model_.questions()[q];
        if (encoded != q) prompt = model_.prompt_of(asked), encoded = q;
        file_->add(model_.predict(asked, prompt, setting_of(steps_[done_]), repeats_[r].name));
        take_next();
      }
    }
    file_->commit();
    return table();
  }

 private:
  void add(std::vector<eval_setting> seeds, std::optional<lazyprune::stage> single = {}) {
    const eval_setting& first = seeds.front();
    std::string policy = first.description(model_.layers());
    if (draws(first)) policy += " (seeds 0 to " + std::to_string(seeds.size() - 1) + " of the first sample, then the next ones)";
    candidates_.push_back({first, policy, single});
    for (std::size_t seed = 0; seed < seeds.size(); ++seed) {
      const std::string name = seeds[seed].text() + ": " + seeds[seed].description(model_.layers());
      repeats_.push_back({candidates_.size() - 1, std::move(seeds[seed]), seed, name, {}});
      repeats_.back().places.resize(model_.questions().size());
    }
  }

  static bool draws(const eval_setting& setting) { return setting.method == "random"; }

  /// A seed draws the same positions in every prompt: each sample has seeds of its own, so that a mean over samples is one over draws too.
  eval_setting setting_of(const step& s) const {
    const repeat& of = repeats_[s.repeat];
    if (!draws(of.setting)) return of.setting;
    return at_budget({of.setting.method}, of.setting.budget, model_.layers(), of.seed + s.question * flags_.seeds);
  }

  /// Dense comes first, whatever was named.
  void add_methods() {
    add({at_budget({"dense"}, {}, model_.layers())});
    const auto& stages = model_.model().stages();
    const auto recommended = stages ? lazyprune::stages::parse(*stages) : lazyprune::lazyllm_stages(model_.layers());
    for (const std::string& text : flags_.methods) {
      const pruning_method method = read_method(text, model_.layers(), recommended);
      for (const double budget : flags_.budgets) {
        std::vector<eval_setting> seeds;
        for (std::size_t seed = 0; seed < (method.name == "random" ? flags_.seeds : 1); ++seed)
          seeds.push_back(at_budget(method, budget, model_.layers(), seed));
        const auto same = [&](const candidate& c) { return c.setting == seeds.front(); };
        if (std::ranges::none_of(candidates_, same)) add(std::move(seeds));
      }
    }
  }

  /// After each layer, or some spread evenly.
  void add_single_stages() {
    constexpr layer_id most = 8;
    const layer_id layers = model_.layers(), n = std::min(layers - 1, most);
    for (layer_id k = 1; k <= n; ++k) {
      const auto after = static_cast<layer_id>(std::lround(static_cast<double>(k) * layers / (n + 1)));
      for (const double share : {0.9, 0.7, 0.5, 0.3, 0.1}) add({one_stage(after, share, layers)}, lazyprune::stage{after, share});
    }
  }

  void take_up(const std::vector<eval_prediction>& done) {
    const std::string file = file_in(flags_.directory, "predictions.jsonl");
    if (done.size() > steps_.size())
      throw lazyprune::error(file, "", "at most " + std::to_string(steps_.size()) + " predictions, as this sweep makes",
                             std::to_string(done.size()));
    for (const eval_prediction& prediction : done) {
      const auto [q, r] = steps_[done_];
      model_.check_earlier(prediction, file, done_ + 1, model_.questions()[q], setting_of(steps_[done_]), repeats_[r].name);
      take_next();
    }
  }

  /// The file's next prediction is that of the next step.
  void take_next() {
    const auto [q, r] = steps_[done_];
    repeats_[r].places[q] = done_++;
  }

  /// Candidate `c` on a task, over the first `limit` samples of each file: seeds are taken together sample by sample, and each sample's
  /// dense run stands beside it. None where nothing was asked.
  std::optional<lazyprune::eval_summary> summary(std::size_t c, const eval_task& task, std::size_t limit) const {
    std::vector<eval_prediction> predictions;
    std::vector<double> scores, dense_scores;
    for (std::size_t q = 0; q < model_.questions().size(); ++q) {
      if (model_.questions()[q].task != &task || model_.questions()[q].number > limit) continue;
      std::vector<eval_prediction> runs;
      for (const repeat& r : repeats_)
        if (r.of == c && r.places[q]) runs.push_back(file_->done()[*r.places[q]]);
      if (runs.empty()) continue;
      auto [prediction, score] = pooled(task, runs);
      const eval_prediction& dense = file_->done()[*repeats_.front().places[q]];
      prediction.cost->dense_ttft_s = dense.cost->ttft_s;
      prediction.cost->dense_total_s = dense.cost->total_s;
      predictions.push_back(std::move(prediction));
      scores.push_back(score);
      dense_scores.push_back(score_of(task, dense));
    }
    if (scores.empty()) return std::nullopt;
    lazyprune::eval_summary result = summary_of(task, candidates_[c].setting.text(), predictions, scores);
    if (c > 0) result.lost = lazyprune::loss_of(dense_scores, scores);
    return result;
  }

  sweep_table table() const {
    std::filesystem::path directory = std::filesystem::absolute(model_.model().directory()).lexically_normal();
    if (!directory.has_filename()) directory = directory.parent_path();
    sweep_table out{
        .model = directory.filename().string(), .layers = model_.layers(), .entries = {}, .sensitivity = {}, .sensitivity_dense = {}};
    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      for (const eval_task* task : model_.tasks()) {
        const auto& [setting, policy, single] = candidates_[c];
        if (auto result = summary(c, *task, all); result && single)
          out.sensitivity.push_back({single->after, single->share, *std::move(result)});
        else if (result)
          out.entries.push_back({setting.method, setting.budget, policy, *std::move(result)});
      }
    for (const eval_task* task : model_.tasks())
      if (auto dense = summary(0, *task, flags_.sensitivity); dense && !out.sensitivity.empty())
        out.sensitivity_dense.push_back(*std::move(dense));
    return out;
  }

  sweep_flags flags_;
  evaluator model_;
  std::vector<candidate> candidates_;  // dense first
  std::vector<repeat> repeats_;        // dense first
  std::vector<step> steps_;            // in the order in which they are made
  std::size_t done_ = 0;               // of them
  std::optional<prediction_file> file_;
};

void write(const std::string& name, const std::string& text) {
  lazyprune::output_file file(name);
  file.write(text);
  file.commit();
}

}  // namespace

int sweep(const sweep_flags& flags) {
  if (flags.questions.data.empty()) throw lazyprune::error("sweep", "", "-d FILE.jsonl", "none");
  if (flags.directory.empty()) throw lazyprune::error("sweep", "", "--out DIR", "none");
  if (flags.search) return search(flags);
  const sweep_table table = sweeping(flags).run();
  write(file_in(flags.directory, "sweep.csv"), to_csv(table_of(table)));
  write(file_in(flags.directory, "report.html"), sweep_page(table));
  if (const std::string figure = sweep_figure(table); !figure.empty()) write(file_in(flags.directory, "accuracy.svg"), figure);
  std::cout << to_markdown(table);
  return 0;
}

}  // namespace program
}  // namespace lazyprune
