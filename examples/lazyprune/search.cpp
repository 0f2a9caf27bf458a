// SPDX-License-Identifier: MIT
// lazyprune sweep --search: the stages that prune most at a loss of score that can be borne. One half of each task's samples, drawn, is
// searched on; what was found is scored on the other, which had no say in it.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <system_error>

#include "commands.hpp"
#include "evaluator.hpp"
#include "format.hpp"
#include "progress.hpp"

#include <lazyprune/eval/detail/mean_over.hpp>
#include <lazyprune/eval/detail/table_text.hpp>
#include <lazyprune/eval/drawn_half.hpp>
#include <lazyprune/eval/prediction_file.hpp>
#include <lazyprune/eval/stage_search.hpp>
#include <lazyprune/io/output_file.hpp>

namespace {

using lazyprune::estimate, lazyprune::eval_prediction, lazyprune::searched_stages, lazyprune::stages;

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
estimate mean(const by_task<double>& values) {
  return *lazyprune::detail::mean_over(
      values, [](const std::vector<double>& task) { return std::optional(lazyprune::detail::estimate_of(task, {})); });
}

/// As flags.
std::string flags_of(const stages& when) { return when.list().empty() ? "--policy dense" : "--stages " + when.text(); }

class searching {
 public:
  explicit searching(const sweep_flags& flags) : flags_(flags), model_(flags.model, flags.backend, flags.questions) {
    for (const lazyprune::eval_task* task : model_.tasks()) {
      std::vector<const question*> all;
      for (const question& asked : model_.questions())
        if (asked.task == task) all.push_back(&asked);
      if (all.size() < 2) throw lazyprune::error("--search", task->name, "at least 2 samples", "1");
      searched_.emplace_back(), held_out_.emplace_back();
      const std::vector<bool> drawn = lazyprune::drawn_half(all.size());
      for (std::size_t i = 0; i < all.size(); ++i) (drawn[i] ? searched_ : held_out_).back().push_back(all[i]);
    }
    std::error_code failure;
    std::filesystem::create_directories(flags.directory, failure);
    if (failure) throw lazyprune::error(flags.directory, "", "a directory, or a name for one", failure.message());
    file_.emplace(file("search.jsonl"), flags.resume);
    for (std::size_t i = 0; i < file_->done().size(); ++i) {
      const auto& cost = file_->done()[i].cost;
      if (!cost)
        throw lazyprune::error(file("search.jsonl"), "prediction " + std::to_string(i + 1), "one that this program made", "another");
      answers_[cost->method].made.push_back(i);
    }
  }

  void run() {
    std::size_t tried = 0;
    const auto scores = [&](const stages& when, const by_task<const question*>& asked, const std::string& what) {
      progress_bar bar(what);
      by_task<double> all;
      for (const std::vector<const question*>& task : asked) {
        all.emplace_back();
        for (const question* one : task) {
          bar.show(count(all), count(asked));
          all.back().push_back(100.0 * score_of(*one->task, answer(*one, when)));
        }
      }
      return all;
    };
    const lazyprune::stage_search search{.max_loss = flags_.max_loss, .most_evaluations = flags_.tries};
    const auto result = search(model_.layers(), [&](const stages& when) {
      const std::string what = "schedule " + std::to_string(++tried) + " of at most " + std::to_string(flags_.tries);
      return mean(scores(when, searched_, what)).mean;
    });
    const searched_stages& best = result.trail[result.best];

    const by_task<double> dense = scores(stages{}, held_out_, "the others, dense"),
                          found = best.when.list().empty() ? dense : scores(best.when, held_out_, "the others");
    file_->commit();
    write_csv(result, mean(dense).mean, mean(found).mean);
    report(result, dense, found);
  }

 private:
  std::string file(const std::string& name) const { return (std::filesystem::path(flags_.directory) / name).string(); }

  /// Of a schedule, in the order of the file: first those of the samples that are searched on, then of the others. What other schedules
  /// stand between them does not matter, so that a search goes on from one of fewer tries, or of another bound.
  struct schedule_answers {
    std::vector<std::size_t> made{};  // places in the file
    std::size_t taken = 0;            // of them
  };

  /// The schedule's next one: of an earlier run, or made now.
  const eval_prediction& answer(const question& asked, const stages& when) {
    const std::string method = flags_of(when);
    auto& [made, taken] = answers_[method];
    const lazyprune::eval_setting setting{.method = method, .budget = {}, .policy = {.stages = when.text()}};
    if (taken == made.size()) {
      if (!loaded_) model_.load();
      loaded_ = true;
      file_->add(model_.predict(asked, model_.prompt_of(asked), setting, method));
      made.push_back(file_->done().size() - 1);
    } else {
      model_.check_earlier(file_->done()[made[taken]], file("search.jsonl"), made[taken] + 1, asked, setting, method);
    }
    return file_->done()[made[taken++]];
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

  void report(const lazyprune::stage_search_result& result, const by_task<double>& dense, const by_task<double>& found) const {
    const searched_stages &whole = result.trail.front(), &best = result.trail[result.best];
    std::vector<std::vector<std::string>> table{{"stages", "rows", "score", "lost"}};
    for (const searched_stages& point : best_trades(result.trail))
      table.push_back({point.when.list().empty() ? "dense" : point.when.text(), percent_text(point.rows), fixed(point.score, 2),
                       fixed(whole.score - point.score, 2)});
    by_task<double> lost = dense;
    for (std::size_t t = 0; t < lost.size(); ++t)
      for (std::size_t i = 0; i < lost[t].size(); ++i) lost[t][i] -= found[t][i];
    std::cout << lazyprune::detail::markdown_table(table, 1) << '\n'
              << flags_of(best.when) << '\n'
              << percent_text(best.rows) << " of the dense rows; score " << fixed(best.score, 2) << ", dense " << fixed(whole.score, 2)
              << ", on the " << count(searched_) << " samples searched on, " << result.trail.size() << " schedules tried\n"
              << "score " << fixed(mean(found).mean, 2) << ", dense " << fixed(mean(dense).mean, 2) << ", lost "
              << lazyprune::detail::with_interval(mean(lost), 1, 2) << ", on the " << count(held_out_) << " others\n";
    if (searched_.size() > 1) std::cout << "scores are means over " << searched_.size() << " tasks, each of which weighs the same\n";
    if (!result.complete) std::cout << "ended by --tries: more of them, with --resume, may find better stages\n";
  }

  sweep_flags flags_;
  evaluator model_;
  by_task<const question*> searched_, held_out_;
  std::optional<lazyprune::prediction_file> file_;
  std::map<std::string, schedule_answers> answers_;  // of a schedule's flags
  bool loaded_ = false;
};

}  // namespace

int search(const sweep_flags& flags) {
  searching(flags).run();
  return 0;
}
