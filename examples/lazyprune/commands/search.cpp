// SPDX-License-Identifier: MIT
// lazyprune sweep --search: the stages that prune most at a loss of score that can be borne. One half of each task's samples, drawn, is
// searched on; what was found is scored on the other, which had no say in it.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "commands/flags.hpp"
#include "questions/evaluator.hpp"
#include "questions/side_by_side.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/progress.hpp"

#include <lazyprune/eval/drawn_half.hpp>
#include <lazyprune/eval/estimate.hpp>
#include <lazyprune/eval/stage_search.hpp>
#include <lazyprune/io/output_file.hpp>
#include "questions/prediction_file.hpp"
#include "tables/table.hpp"

namespace lazyprune {
namespace program {
namespace {

/// Samples, or what is known of each, task by task.
template <class T>
using by_task = std::vector<std::vector<T>>;

template <class T>
std::size_t count(const by_task<T>& all) {
  std::size_t n = 0;
  for (const std::vector<T>& task : all) n += task.size();
  return n;
}

/// Of the tasks' means: each task weighs the same.
double mean(const by_task<double>& values) {
  double sum = 0;
  for (const std::vector<double>& task : values) sum += std::reduce(task.begin(), task.end()) / static_cast<double>(task.size());
  return sum / static_cast<double>(values.size());
}
estimate mean_and_interval(const by_task<double>& values) {
  return *lazyprune::mean_over(values, [](const std::vector<double>& task) { return std::optional(lazyprune::estimate_of(task)); });
}

/// As flags.
constexpr std::string_view no_stages = "--policy dense", stages_flag = "--stages ";
std::string flags_of(const stages& when) { return when.list().empty() ? std::string(no_stages) : std::string(stages_flag) + when.text(); }

class searching {
 public:
  explicit searching(const sweep_flags& flags) : flags_(flags), model_(flags.model, flags.backend, flags.questions) {
    for (const lazyprune::eval_task* task : model_.tasks()) {
      std::vector<std::size_t> all;
      for (std::size_t q = 0; q < model_.questions().size(); ++q)
        if (model_.questions()[q].task == task) all.push_back(q);
      if (all.size() < 2) throw lazyprune::error("--search", task->name, "at least 2 samples", "1");
      searched_.emplace_back(), held_out_.emplace_back();
      const std::vector<bool> drawn = lazyprune::drawn_half(all.size());
      for (std::size_t i = 0; i < all.size(); ++i) (drawn[i] ? searched_ : held_out_).back().push_back(all[i]);
    }
    std::error_code failure;
    std::filesystem::create_directories(flags.directory, failure);
    if (failure) throw lazyprune::error(flags.directory, "", "a directory, or a name for one", failure.message());
    file_.emplace(file("search.jsonl"), flags.resume);
    for (std::size_t i = 0; i < file_->done().size(); ++i) take_up(i);
  }

  void run() {
    std::size_t tried = 0;
    const auto scores = [&](const stages& when, const by_task<std::size_t>& asked, const std::string& what) {
      const answers& places = answered(when, asked, what);
      by_task<double> all;
      for (const std::vector<std::size_t>& task : asked) {
        all.emplace_back();
        for (const std::size_t q : task) all.back().push_back(100.0 * score_of(*model_.questions()[q].task, file_->done()[*places[q]]));
      }
      return all;
    };
    const lazyprune::stage_search search{.max_loss = flags_.max_loss, .most_evaluations = flags_.tries};
    const auto result = search(model_.layers(), [&](const stages& when) {
      const std::string what = "schedule " + std::to_string(++tried) + " of at most " + std::to_string(flags_.tries);
      return mean(scores(when, searched_, what));
    });
    const searched_stages& best = result.trail[result.best];

    const by_task<double> dense = scores(stages{}, held_out_, "the others, dense"),
                          found = best.when.list().empty() ? dense : scores(best.when, held_out_, "the others");
    file_->commit();
    write_csv(result, mean(dense), mean(found));
    report(result, dense, found);
  }

 private:
  std::string file(const std::string& name) const { return (std::filesystem::path(flags_.directory) / name).string(); }

  /// To the questions, their places in the file; none: not yet, or not asked.
  using answers = std::vector<std::optional<std::size_t>>;

  answers& answers_of(const std::string& flags) { return answers_.try_emplace(flags, model_.questions().size()).first->second; }

  static eval_setting setting_of(const std::string& flags) {
    const bool dense = flags == no_stages;
    return {.method = flags, .budget = {}, .policy = {.stages = dense ? "" : flags.substr(stages_flag.size())}};
  }

  /// Prediction `i` of an earlier search, which may have had fewer tries, or another bound.
  void take_up(std::size_t i) {
    const eval_prediction& done = file_->done()[i];
    const std::string method = done.cost ? done.cost->method : "";
    const std::string place = "prediction " + std::to_string(i + 1);
    if (method != no_stages && !method.starts_with(stages_flag))
      throw lazyprune::error(file("search.jsonl"), place, "one that a search made", "another");
    try {
      setting_of(method).description(model_.layers());
    } catch (const lazyprune::error& fault) {
      throw lazyprune::error(file("search.jsonl") + ": " + place, fault);
    }
    answers& places = answers_of(method);
    std::vector<std::size_t> open;
    for (std::size_t q = 0; q < places.size(); ++q)
      if (!places[q]) open.push_back(q);
    places[model_.question_of(done, file("search.jsonl"), i + 1, open, setting_of(method), method)] = i;
  }

  /// Asks what was not asked before.
  const answers& answered(const stages& when, const by_task<std::size_t>& asked, const std::string& what) {
    const std::string method = flags_of(when);
    answers& places = answers_of(method);
    std::vector<std::size_t> open;
    for (const std::vector<std::size_t>& task : asked)
      for (const std::size_t q : task)
        if (!places[q]) open.push_back(q);
    if (open.empty()) return places;

    if (!std::exchange(loaded_, true)) model_.load(flags_.jobs);
    progress_bar bar(what);
    const std::size_t all = count(asked);
    std::size_t done = all - open.size();
    bar.show(done, all);
    const auto ask = [&](std::size_t i) {
      const question& one = model_.questions()[open[i]];
      return model_.predict(one, model_.prompt_of(one), setting_of(method), method);
    };
    side_by_side(open.size(), flags_.jobs, ask, [&](std::size_t i, eval_prediction&& prediction) {
      file_->add(std::move(prediction));
      places[open[i]] = file_->done().size() - 1;
      bar.show(++done, all);
    });
    return places;
  }

  /// All that was tried, in the order in which it was. held_out: of dense and of the result.
  void write_csv(const lazyprune::stage_search_result& result, double dense, double found) const {
    const auto curve = best_trades(result.trail);
    table all{.columns = {{"stages"}, {"rows"}, {"score"}, {"holds"}, {"best_trade"}, {"held_out_score"}}, .rows = {}};
    const auto number = [](double value) { return cell(number_as_text{text_of_number(value)}); };
    for (std::size_t i = 0; i < result.trail.size(); ++i) {
      const searched_stages& tried = result.trail[i];
      const bool best_trade = std::ranges::find(curve, tried) != curve.end();
      all.rows.push_back({tried.when.text(), number(tried.rows), number(tried.score), std::uint64_t{tried.holds}, std::uint64_t{best_trade},
                          i == result.best ? number(found)
                          : i == 0         ? number(dense)
                                           : cell()});
    }
    output_file out(file("search.csv"));
    out.write(to_csv(all));
    out.commit();
  }

  void report(const lazyprune::stage_search_result& result, const by_task<double>& dense, const by_task<double>& found) const {
    const searched_stages &whole = result.trail.front(), &best = result.trail[result.best];
    std::vector<std::vector<std::string>> trades;
    for (const searched_stages& point : best_trades(result.trail))
      trades.push_back({point.when.list().empty() ? "dense" : point.when.text(), percent_text(point.rows), fixed(point.score, 2),
                        fixed(whole.score - point.score, 2)});
    by_task<double> lost = dense;
    for (std::size_t t = 0; t < lost.size(); ++t)
      for (std::size_t i = 0; i < lost[t].size(); ++i) lost[t][i] -= found[t][i];
    std::cout << markdown_table(markdown_columns(1, {"stages", "rows", "score", "lost"}), trades) << '\n'
              << flags_of(best.when) << '\n'
              << percent_text(best.rows) << " of the dense rows; score " << fixed(best.score, 2) << ", dense " << fixed(whole.score, 2)
              << ", on the " << count(searched_) << " samples searched on, " << result.trail.size() << " schedules tried\n"
              << "score " << fixed(mean(found), 2) << ", dense " << fixed(mean(dense), 2) << ", lost "
              << with_interval(mean_and_interval(lost), 1, 2) << ", on the " << count(held_out_) << " others\n";
    if (searched_.size() > 1) std::cout << "scores are means over " << searched_.size() << " tasks, each of which weighs the same\n";
    if (!result.complete) std::cout << "ended by --tries: more of them, with --resume, may find better stages\n";
  }

  sweep_flags flags_;
  evaluator model_;
  by_task<std::size_t> searched_, held_out_;  // questions
  std::optional<prediction_file> file_;
  std::map<std::string, answers> answers_;  // of a schedule's flags
  bool loaded_ = false;
};

}  // namespace

int search(const sweep_flags& flags) {
  searching(flags).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
