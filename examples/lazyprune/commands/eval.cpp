// SPDX-License-Identifier: MIT
#include "commands/eval.hpp"

#include <iostream>
#include <optional>

#include "models/sessions.hpp"
#include "questions/prediction_log.hpp"
#include "questions/recorded_prediction.hpp"
#include "questions/results.hpp"
#include "questions/run_results.hpp"
#include "questions/runner.hpp"
#include "tables/summary_table.hpp"
#include "terminal/interrupts.hpp"

#include <lazyprune/eval/summary.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/layers_of.hpp>

namespace lazyprune {
namespace program {
namespace {

class evaluation {
 public:
  evaluation(const eval_flags& flags, const policy_registry& policies)
      : flags_(flags), run_(flags.model, flags.backend, flags.questions, policies) {
    const chosen_policy chosen = policy_with_note(flags.policy, run_.model(), policies);
    setting_.policy = chosen.spec;
    setting_.method = well_formed(flags.method.empty() ? chosen.line() : flags.method);
    record();
    const std::vector<bool> mine = samples_to_answer<recorded_prediction>(record_, flags.predicted, flags.parts.finished);
    for (std::size_t q = 0; q < run_.questions().size(); ++q)
      if (mine[q]) asks_.push_back({q, setting_, setting_.method});
    if (flags.parts.part) make_directory(flags.predicted);
    log_.emplace(run_, flags.parts.part ? file_in(flags.predicted, recorded_prediction::file_name) : flags.predicted, flags.resume);
    // With several jobs, the file has the samples in the order in which they were answered. So an interrupt loses no answer.
    log_->take_up(false, [&](const eval_prediction& done, const std::string& place) {
      check_dense_time(done, place);
      return setting_;
    });
    if (flags.parts.part) log_->go_with({flags.predicted, recorded_prediction::file_name, record_});
  }

  void run() {
    answer(run_, *log_, asks_, flags_.jobs, "evaluating", [&](std::span<const ask> asked) { return std::vector{predict(asked.front())}; });
    // The file of a part may also have answers of other parts, if the number of parts was changed. It needs no order.
    log_->commit(flags_.parts.part ? std::span<const ask>() : asks_);
    run_.tell_of_cut_prompts();
    if (flags_.parts.part)
      tell_of_part(record_, asks_.size());
    else
      show_eval(
          record_, [&](const run_place& place) { return log_->find(place.sample, setting_.method); }, flags_.output);
  }

 private:
  void record() {
    record_ = run_.record("eval", flags_.parts.which());
    const std::string policy = setting_.description(layers_of(run_.model().config()), run_.policies());
    record_.settings = {{.method = setting_.method, .policy = policy + (flags_.compare ? " --compare" : "")}};
    for (std::size_t q = 0; q < record_.samples.size(); ++q) {
      recorded_sample& sample = record_.samples[q];
      sample.number = q + 1;
      sample.asked = run_.how_asked(q, true);
      sample.asks = {
          ask_digest(record_.model, setting_.method, policy + sample.asked, sample.id, run_.questions()[q].sample.answers, flags_.compare)};
    }
  }

  void check_dense_time(const eval_prediction& done, const std::string& place) const {
    if (done.cost && flags_.compare != done.cost->dense_ttft_s.has_value())
      throw error(flags_.predicted, place, flags_.compare ? "one with --compare" : "one without --compare", "the other");
  }

  /// The dense run comes first for every other question, so that a drift of the machine affects dense and pruned runs alike.
  eval_prediction predict(const ask& asked) const {
    std::optional<double> dense;
    const bool dense_first = asked.question % 2 == 0;
    if (flags_.compare && dense_first) dense = run_.dense_seconds(asked.question);
    eval_prediction prediction = run_.predict(asked);
    if (flags_.compare && !dense_first) dense = run_.dense_seconds(asked.question);
    prediction.cost->dense_ttft_s = dense;
    return prediction;
  }

  eval_flags flags_;
  runner run_;
  eval_setting setting_;
  run_record record_;
  std::vector<ask> asks_;
  std::optional<prediction_log> log_;
};

void print_table(std::span<const eval_summary> summaries, table_format format) {
  std::cout << (format == table_format::md ? to_markdown(summaries) : text_of(table_of(summaries), format));
}

}  // namespace

void show_eval(const run_record& record, const found_prediction& find, table_format format) {
  std::vector<eval_summary> summaries;
  for (const std::string& task : record.tasks()) {
    std::vector<eval_prediction> of_task;
    for (std::size_t q = 0; q < record.samples.size(); ++q)
      if (record.samples[q].task == task) of_task.push_back(*find({q, 0}));
    summaries.push_back(summary_of(recorded_task(task), record.settings.front().method, of_task));
  }
  print_table(summaries, format);
}

int eval(const eval_flags& flags, const policy_registry& policies) {
  remove_files_when_interrupted();
  if (flags.questions.data.empty())
    print_table(std::vector{scored_predictions(flags.predictions, flags.questions.task, flags.method)}, flags.output);
  else
    evaluation(flags, policies).run();
  return 0;
}

}  // namespace program
}  // namespace lazyprune
