// SPDX-License-Identifier: MIT
// lazyprune sweep --search: the stages that prune most at a loss of score that can be borne. One half of each task's samples, drawn, is
// searched on; what was found is scored on the other, which had no say in it.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <optional>
#include <system_error>

#include "commands.hpp"
#include "evaluator.hpp"
#include "format.hpp"
#include "progress.hpp"

#include <lazyprune/eval/detail/table_text.hpp>
#include <lazyprune/eval/drawn_half.hpp>
#include <lazyprune/eval/prediction_file.hpp>
#include <lazyprune/eval/stage_search.hpp>
#include <lazyprune/io/output_file.hpp>

namespace {

using lazyprune::estimate, lazyprune::eval_prediction, lazyprune::searched_stages, lazyprune::stages;

/// As flags.
std::string flags_of(const stages& when) { return when.list().empty() ? "--policy dense" : "--stages " + when.text(); }

class searching {
 public:
  explicit searching(const sweep_flags& flags) : flags_(flags), model_(flags.model, flags.backend, flags.questions) {
    for (const lazyprune::eval_task* task : model_.tasks()) {
      std::vector<const question*> all;
      for (const question& asked : model_.questions())
        if (asked.task == task) all.push_back(&asked);
      const std::vector<bool> drawn = lazyprune::drawn_half(all.size());
      for (std::size_t i = 0; i < all.size(); ++i) (drawn[i] ? searched_ : held_out_).push_back(all[i]);
    }
    if (held_out_.empty()) throw lazyprune::error("--search", "", "at least 2 samples of a task", "1");
    std::error_code failure;
    std::filesystem::create_directories(flags.directory, failure);
    if (failure) throw lazyprune::error(flags.directory, "", "a directory, or a name for one", failure.message());
    file_.emplace(file("search.jsonl"), flags.resume);
  }

  void run() {
    progress_bar bar("searching");
    const auto scores = [&](const stages& when, const std::vector<const question*>& asked) {
      std::vector<double> all;
      for (const question* one : asked) {
        bar.show(taken_, flags_.tries * searched_.size() + 2 * held_out_.size());
        all.push_back(100.0 * score_of(*one->task, answer(*one, when)));
      }
      return all;
    };
    const lazyprune::stage_search search{.max_loss = flags_.max_loss, .most_evaluations = flags_.tries};
    const auto result = search(model_.layers(), [&](const stages& when) { return mean(scores(when, searched_)); });
    const searched_stages& best = result.trail[result.best];

    const std::vector<double> dense = scores(stages{}, held_out_), found = best.when.list().empty() ? dense : scores(best.when, held_out_);
    if (taken_ < file_->done().size())
      throw lazyprune::error(file("search.jsonl"), "", "at most " + std::to_string(taken_) + " predictions, as this search makes",
                             std::to_string(file_->done().size()));
    file_->commit();
    write_csv(result, mean(dense), mean(found));
    report(result, dense, found);
  }

 private:
  std::string file(const std::string& name) const { return (std::filesystem::path(flags_.directory) / name).string(); }
  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  /// The next one: of an earlier run, or made now.
  const eval_prediction& answer(const question& asked, const stages& when) {
    const std::string method = flags_of(when);
    const lazyprune::eval_setting setting{.method = method, .budget = {}, .policy = {.stages = when.text()}};
    if (taken_ == file_->done().size()) {
      if (!loaded_) model_.load();
      loaded_ = true;
      file_->add(model_.predict(asked, model_.prompt_of(asked), setting, method));
    } else {
      model_.check_earlier(file_->done()[taken_], file("search.jsonl"), taken_ + 1, asked, setting, method);
    }
    return file_->done()[taken_++];
  }

  /// All that was tried, in the order in which it was. held_out: of dense and of the result.
  void write_csv(const lazyprune::stage_search_result& result, double dense, double found) const {
    const auto curve = best_trades(result.trail);
    std::string text = "stages,rows,score,holds,best_trade,held_out_score\n";
    for (std::size_t i = 0; i < result.trail.size(); ++i) {
      const searched_stages& tried = result.trail[i];
      const auto number = [](double value) { return ',' + lazyprune::text_of_number(value); };
      const auto yes = [](bool value) { return value ? ",1" : ",0"; };
      text += lazyprune::detail::csv_text(tried.when.text()) + number(tried.rows) + number(tried.score) + yes(tried.holds) +
              yes(std::ranges::find(curve, tried) != curve.end()) +
              (i == result.best ? number(found)
               : i == 0         ? number(dense)
                                : ",") +
              '\n';
    }
    lazyprune::output_file out(file("search.csv"));
    out.write(text);
    out.commit();
  }

  void report(const lazyprune::stage_search_result& result, const std::vector<double>& dense, const std::vector<double>& found) const {
    const searched_stages &whole = result.trail.front(), &best = result.trail[result.best];
    std::vector<std::vector<std::string>> table{{"stages", "rows", "score", "lost"}};
    for (const searched_stages& point : best_trades(result.trail))
      table.push_back({point.when.list().empty() ? "dense" : point.when.text(), percent_text(point.rows), fixed(point.score, 2),
                       fixed(whole.score - point.score, 2)});
    std::vector<double> lost;
    for (std::size_t i = 0; i < dense.size(); ++i) lost.push_back(dense[i] - found[i]);
    const estimate loss = lazyprune::detail::estimate_of(lost, {});
    std::cout << lazyprune::detail::markdown_table(table, 1) << '\n'
              << flags_of(best.when) << '\n'
              << percent_text(best.rows) << " of the dense rows; score " << fixed(best.score, 2) << ", dense " << fixed(whole.score, 2)
              << ", on the " << searched_.size() << " samples searched on, " << result.trail.size() << " schedules tried\n"
              << "score " << fixed(mean(found), 2) << ", dense " << fixed(mean(dense), 2) << ", lost "
              << lazyprune::detail::with_interval(loss, 1, 2) << ", on the " << held_out_.size() << " others\n";
    if (!result.complete) std::cout << "ended by --tries: more of them may find better stages\n";
  }

  sweep_flags flags_;
  evaluator model_;
  std::vector<const question*> searched_, held_out_;
  std::optional<lazyprune::prediction_file> file_;
  std::size_t taken_ = 0;  // predictions of the file that are in use
  bool loaded_ = false;
};

}  // namespace

int search(const sweep_flags& flags) {
  if (flags.sensitivity > 0) throw lazyprune::error("--search", "", "no --sensitivity", std::to_string(flags.sensitivity));
  searching(flags).run();
  return 0;
}
