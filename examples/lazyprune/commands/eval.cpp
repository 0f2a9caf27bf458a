// SPDX-License-Identifier: MIT
// lazyprune eval: what a model under a policy answers to a benchmark's questions, what the answers score by the benchmark's own metrics,
// and what they cost. Or what predictions that exist score.

#include <iostream>
#include <numeric>
#include <optional>

#include "commands/flags.hpp"
#include "engine/sessions.hpp"
#include "questions/evaluator.hpp"
#include "questions/side_by_side.hpp"
#include "tables/number_text.hpp"
#include "terminal/columns.hpp"
#include "terminal/progress.hpp"

#include "questions/prediction_file.hpp"
#include "tables/summary_table.hpp"

namespace lazyprune {
namespace program {
namespace {

class evaluation {
 public:
  explicit evaluation(const eval_flags& flags)
      : flags_(flags), model_(flags.model, flags.backend, flags.questions), place_(model_.questions().size()), open_(place_.size()) {
    std::iota(open_.begin(), open_.end(), std::size_t{0});
    setting_.policy = with_recommended_stages(flags.policy, model_.model());
    setting_.method = flags.method.empty() ? short_text(setting_.policy) : flags.method;
    if (!flags.predicted.empty()) file_.emplace(flags.predicted, flags.resume);
    if (file_) take_up(file_->done());
  }

  std::vector<eval_summary> run() {
    if (!open_.empty()) {
      model_.load(flags_.jobs);
      progress_bar bar("evaluating");
      const auto show = [&] { bar.show(predictions_.size(), model_.questions().size()); };
      show();
      const auto take = [&](std::size_t i, eval_prediction&& prediction) {
        if (file_) file_->add(prediction);
        place_[open_[i]] = predictions_.size();
        predictions_.push_back(std::move(prediction));
        show();
      };
      side_by_side(
          open_.size(), flags_.jobs, [&](std::size_t i) { return predict(open_[i]); }, take);
    }
    if (file_) file_->commit(place_);
    return summaries();
  }

 private:
  /// What an earlier run has left. Samples that were answered side by side stand as they came, so that none is lost.
  void take_up(const std::vector<eval_prediction>& done) {
    for (std::size_t i = 0; i < done.size(); ++i) {
      const std::size_t q = model_.question_of(done[i], flags_.predicted, i + 1, open_, setting_, setting_.method);
      if (flags_.compare != done[i].cost->dense_ttft_s.has_value())
        throw lazyprune::error(flags_.predicted, "prediction " + std::to_string(i + 1),
                               flags_.compare ? "one with --compare" : "one without --compare", "the other");
      place_[q] = i;
      std::erase(open_, q);
    }
    predictions_ = done;
  }

  /// The dense run comes first now, then second: what drifts, drifts for both.
  eval_prediction predict(std::size_t i) const {
    const question& asked = model_.questions()[i];
    const auto prompt = model_.prompt_of(asked);
    std::optional<double> dense;
    if (flags_.compare && i % 2 == 0) dense = model_.dense_seconds(prompt);
    eval_prediction prediction = model_.predict(asked, prompt, setting_, setting_.method);
    if (flags_.compare && i % 2 == 1) dense = model_.dense_seconds(prompt);
    prediction.cost->dense_ttft_s = dense;
    return prediction;
  }

  std::vector<eval_summary> summaries() const {
    std::vector<eval_summary> all;
    for (const eval_task* task : model_.tasks()) {
      std::vector<eval_prediction> of_task;
      for (std::size_t q = 0; q < place_.size(); ++q)
        if (model_.questions()[q].task == task) of_task.push_back(predictions_[place_[q]]);
      all.push_back(summary_of(*task, setting_.method, of_task));
    }
    return all;
  }

  eval_flags flags_;
  evaluator model_;
  eval_setting setting_;
  std::optional<prediction_file> file_;
  std::vector<eval_prediction> predictions_;  // as they came
  std::vector<std::size_t> place_;            // (questions), of the answer among them
  std::vector<std::size_t> open_;             // questions that an earlier run has not answered
};

/// Without a model.
eval_summary score(const eval_flags& flags) {
  lazyprune::line_reader lines(flags.predictions);
  const eval_task& task = flags.questions.task.empty() ? task_of_file(flags.predictions) : task_named(flags.questions.task);
  return score_predictions(lines, task, flags.method.empty() ? lines.name() : flags.method, complaints(flags.questions.strict));
}

}  // namespace

int eval(const eval_flags& flags) {
  if (flags.fidelity) return fidelity(flags);
  if (!flags.texts.empty() || flags.prefix) throw lazyprune::error(flags.prefix ? "--prefix" : "--file", "", "--fidelity with it", "none");
  if (flags.questions.data.empty() == flags.predictions.empty())
    throw lazyprune::error("eval", "", "one of -d and --predictions", flags.predictions.empty() ? "none" : "both");
  if (flags.resume && flags.predicted.empty()) throw lazyprune::error("--resume", "", "--out FILE.jsonl with it", "none");
  const std::vector<eval_summary> summaries = flags.questions.data.empty() ? std::vector{score(flags)} : evaluation(flags).run();
  std::cout << (flags.output == table_format::md ? to_markdown(summaries) : text_of(table_of(summaries), flags.output));
  return 0;
}

}  // namespace program
}  // namespace lazyprune
