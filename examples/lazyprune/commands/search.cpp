// SPDX-License-Identifier: MIT
// The search uses a random half of each task's samples. The other half, which the search does not see, then scores the stages found.
// Samples are scored by their answers. Questions made out of texts need no labels: their score is the agreement with the dense model's own
// answer.
#include "commands/search.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>

#include "models/sessions.hpp"
#include "questions/prediction_log.hpp"
#include "questions/results.hpp"
#include "questions/runner.hpp"
#include "tables/number_text.hpp"
#include "tables/table.hpp"
#include "terminal/interrupts.hpp"

#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/eval/drawn_half.hpp>
#include <lazyprune/eval/metrics/rouge_l.hpp>
#include <lazyprune/eval/stage_search.hpp>
#include <lazyprune/files/pruning_file.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {
namespace {

/// A value for each sample, task by task.
template <class T>
using by_task = std::vector<std::vector<T>>;

template <class T>
std::size_t count(const by_task<T>& all) {
  std::size_t n = 0;
  for (const std::vector<T>& task : all) n += task.size();
  return n;
}

/// The mean of the tasks' means, so that each task weighs the same.
double mean(const by_task<double>& values) {
  double sum = 0;
  for (const std::vector<double>& task : values) sum += std::reduce(task.begin(), task.end()) / static_cast<double>(task.size());
  return sum / static_cast<double>(values.size());
}
estimate mean_and_interval(const by_task<double>& values) {
  return *mean_over(values, [](const std::vector<double>& task) { return std::optional(estimate_of(task)); });
}

by_task<double> difference(by_task<double> from, const by_task<double>& what) {
  for (std::size_t t = 0; t < from.size(); ++t)
    for (std::size_t i = 0; i < from[t].size(); ++i) from[t][i] -= what[t][i];
  return from;
}

/// A schedule's flag is `no_stages`, or `stages_flag` with the text of its stages. If only the layer of a stage matters, its share is
/// `any_share`.
constexpr std::string_view no_stages = "--policy dense", stages_flag = "--stages ";
constexpr double any_share = 0.5;
std::string flag_of(const stages& when) { return when.list().empty() ? std::string(no_stages) : std::string(stages_flag) + when.text(); }

/// Returns the agreement of two answers, from 0 to 100: ROUGE-L of their words. One word that differs by a near tie costs little if the
/// answers go on alike.
double agreement(std::string_view dense, std::string_view other) { return dense == other ? 100 : 100 * rouge_l(other, dense); }

class searching {
 public:
  searching(const search_flags& flags, const policy_registry& policies)
      : flags_(flags), run_(flags.model, flags.backend, flags.questions, policies) {
    for (const eval_task* task : run_.questions().tasks()) {
      const std::vector<std::size_t> all = run_.questions().of_task(*task);
      if (all.size() < 2) throw error("search", task->name, "at least 2 samples", "1");
      const std::vector<bool> drawn = drawn_half(all.size());
      searched_.emplace_back();
      held_out_.emplace_back();
      for (std::size_t i = 0; i < all.size(); ++i) (drawn[i] ? searched_ : held_out_).back().push_back(all[i]);
    }
    if (const auto known = run_.model().stages(); known && take_calibration(flags_.parts, *known)) calibration_ = known->calibration;
    check_parts();
    make_directory(flags.directory);
    log_.emplace(run_, file_in(flags.directory, "search.jsonl"), flags.resume);
    // An earlier search with another bound or more tries may have tried schedules that this search does not try. So the stages of each
    // prediction are read from the prediction itself.
    log_->take_up(true, [&](const eval_prediction& done, const std::string& place) { return setting_that_made(done, place); });
  }

  void run() {
    std::size_t tried = 0;
    bool ended_by_clock = false;
    const stage_search search{.max_loss = flags_.max_loss,
                              .most_evaluations = flags_.tries,
                              .most_stages = flags_.most_stages,
                              .after = layers_.attention_after,
                              .enough = [&](const stages& when) { return until_.over() && !answered(when) && (ended_by_clock = true); }};
    by_task<double> whole;
    const auto result = search(run_.layers(), [&](const stages& when) {
      const by_task<double> found =
          scores(when, searched_, "schedule " + std::to_string(++tried) + " of at most " + std::to_string(flags_.tries));
      if (when.list().empty()) whole = found;
      const estimate lost = mean_and_interval(difference(whole, found));
      const stage_score score{mean(found), flags_.certain ? lost.ci95.high : lost.mean};
      if (score.loss > flags_.max_loss) share_up_to(search.first_after(when, run_.layers()));
      return score;
    });
    const searched_stages& best = result.trail[result.best];
    share_up_to(std::exchange(shared_, 0));  // drop the prefixes of the searched samples; the held-out samples share theirs

    const by_task<double> dense = scores(stages{}, held_out_, "the others, dense"),
                          found = best.when.list().empty() ? dense : scores(best.when, held_out_, "the others");
    if (!ended_by_clock) log_->commit();
    write_csv(result, mean(dense), mean(found));
    if (calibration_) {  // also without stages, so that no file of an earlier search stays
      pruning_file file = *calibration_;
      file.stages = best.when.text();
      write_whole(file_in(flags_.directory, std::string(pruning_file::name)), file.text());
    }
    report(result, dense, found);
    if (ended_by_clock)
      std::cout << "ended by --minutes: --resume goes on, and may find better stages\n";
    else if (!result.complete)
      std::cout << "ended by --tries: more tries, with --resume, may find better stages\n";
    run_.tell_of_cut_prompts();
  }

 private:
  eval_setting setting_of(const std::string& flags) const {
    policy_spec policy = flags == no_stages ? policy_spec{} : flags_.parts;
    policy.stages = flags == no_stages ? "" : flags.substr(stages_flag.size());
    return keeping({.method = flags, .budget = {}, .policy = std::move(policy)}, flags_.kept);
  }

  /// Throws `error` if the model cannot be pruned with the policy of the flags.
  void check_parts() const {
    layer_id after = 1;
    while (after < run_.layers() && !layers_.scores_attention_after(after)) ++after;
    if (after < run_.layers()) setting_of(flag_of({{after, any_share}})).description(layers_, run_.policies());
  }

  /// Call this when no later schedule will prune within the first `layers` layers. All later schedules then share the rows of these layers.
  void share_up_to(layer_id layers) {
    if (flags_.jobs > 1 || layers >= run_.layers() || layers <= shared_) return;
    shared_ = layers;
    run_.share_with_those_to_come(setting_of(flag_of({{layers, any_share}})));
  }

  /// True if the log has the answers to all samples of the search's half under these stages.
  bool answered(const stages& when) const {
    const std::string name = flag_of(when);
    return std::ranges::all_of(searched_, [&](const auto& task) {
      return std::ranges::all_of(task, [&](std::size_t q) { return log_->find(q, name) != nullptr; });
    });
  }

  eval_setting setting_that_made(const eval_prediction& done, const std::string& place) const {
    const std::string method = done.cost ? done.cost->method : "", file = file_in(flags_.directory, "search.jsonl");
    if (method != no_stages && !method.starts_with(stages_flag)) throw error(file, place, "a prediction that a search made", "another one");
    eval_setting setting = setting_of(method);
    try {
      setting.description(layers_, run_.policies());
    } catch (const error& fault) {
      throw error(file + ": " + place, fault);
    }
    return setting;
  }

  /// Returns the score of each question under these stages, 0 to 100. Asks only questions that have no answer under them in the log.
  by_task<double> scores(const stages& when, const by_task<std::size_t>& questions, const std::string& what) {
    const eval_setting setting = setting_of(flag_of(when));
    std::vector<ask> asks;
    for (const std::vector<std::size_t>& task : questions)
      for (const std::size_t q : task) asks.push_back({q, setting, setting.method, false});
    answer(run_, *log_, asks, flags_.jobs, what, [&](std::span<const ask> asked) { return run_.predict(asked); });
    by_task<double> all;
    for (const std::vector<std::size_t>& task : questions) {
      all.emplace_back();
      for (const std::size_t q : task) all.back().push_back(score(q, *log_->find(q, setting.method)));
    }
    return all;
  }

  /// The dense model must have answered the question before.
  double score(std::size_t question, const eval_prediction& found) const {
    if (flags_.questions.texts.files.empty()) return 100.0 * score_of(*run_.questions()[question].task, found);
    return agreement(log_->find(question, std::string(no_stages))->text, found.text);
  }

  /// Writes all schedules in the order in which they were tried. `dense`, `found`: the scores of the dense model and of the result on the
  /// held-out samples.
  void write_csv(const stage_search_result& result, double dense, double found) const {
    const auto curve = best_trades(result.trail);
    table all{.columns = {{"stages"}, {"rows"}, {"score"}, {"holds"}, {"best_trade"}, {"held_out_score"}, {"loss"}}, .rows = {}};
    const auto number = [](double value) { return cell(number_as_text{text_of_number(value)}); };
    for (std::size_t i = 0; i < result.trail.size(); ++i) {
      const searched_stages& tried = result.trail[i];
      const bool best_trade = std::ranges::find(curve, tried) != curve.end();
      all.rows.push_back({tried.when.text(), number(tried.rows), number(tried.score), std::uint64_t{tried.holds}, std::uint64_t{best_trade},
                          i == result.best ? number(found)
                          : i == 0         ? number(dense)
                                           : cell(),
                          number(tried.loss)});
    }
    write_whole(file_in(flags_.directory, "search.csv"), to_csv(all));
  }

  /// The flags that prune as the search found it.
  std::string found_flags(const stages& best) const {
    if (best.list().empty()) return std::string(no_stages);
    if (!calibration_) return flags_text(setting_of(flag_of(best)).policy);
    return "stages " + best.text() + ", with the probes in " + file_in(flags_.directory, std::string(pruning_file::name));
  }

  void report(const stage_search_result& result, const by_task<double>& dense, const by_task<double>& found) const {
    const searched_stages &whole = result.trail.front(), &best = result.trail[result.best];
    std::vector<searched_stages> shown = best_trades(result.trail);
    if (std::ranges::find(shown, best) == shown.end())
      shown.insert(std::ranges::upper_bound(shown, best.rows, {}, &searched_stages::rows), best);
    std::vector<std::vector<std::string>> trades;
    for (const searched_stages& point : shown) {
      trades.push_back({point.when.list().empty() ? "dense" : point.when.text(), percent_text(point.rows), fixed(point.score, 2),
                        fixed(whole.score - point.score, 2), point.holds ? "yes" : "no"});
      if (flags_.certain) trades.back().insert(trades.back().end() - 1, fixed(point.loss, 2));
    }
    std::vector<std::string> heads{"stages", "rows", "score", "lost", "holds"};
    if (flags_.certain) heads.insert(heads.end() - 1, "lost at most");
    std::cout << markdown_table(markdown_columns(1, heads), trades) << '\n'
              << found_flags(best.when) << '\n'
              << "computes " << percent_text(best.rows) << " of the dense model's rows; " << result.trail.size() << " schedules tried\n"
              << "on the " << count(searched_) << " samples of the search: score " << fixed(best.score, 2) << ", dense model "
              << fixed(whole.score, 2) << '\n'
              << "on the " << count(held_out_) << " other samples: score " << fixed(mean(found), 2) << ", dense model "
              << fixed(mean(dense), 2) << ", lost " << with_interval(mean_and_interval(difference(dense, found)), 1, 2) << '\n'
              << "holds: " << (flags_.certain ? "the upper end of the loss's 95 % interval, \"lost at most\", is" : "the loss is")
              << " at most " << text_of_number(flags_.max_loss) << '\n';
    if (searched_.size() > 1) std::cout << "scores are means over " << searched_.size() << " tasks, each of which weighs the same\n";
  }

  search_flags flags_;
  time_limit until_{flags_.minutes};
  runner run_;
  model_layers layers_ = layers_of(run_.model().config());
  by_task<std::size_t> searched_, held_out_;  // indices of questions
  std::optional<prediction_log> log_;
  std::shared_ptr<const pruning_file> calibration_;  // whose scorer all schedules use; null: none
  layer_id shared_ = 0;                              // all later schedules compute this many layers in full
};

}  // namespace

int search(const search_flags& flags, const policy_registry& policies) {
  remove_files_when_interrupted();
  searching(flags, policies).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
