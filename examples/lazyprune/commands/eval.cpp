// SPDX-License-Identifier: MIT
#include "commands/eval.hpp"

#include <iostream>
#include <optional>

#include "models/sessions.hpp"
#include "questions/prediction_log.hpp"
#include "questions/runner.hpp"
#include "tables/summary_table.hpp"

#include <lazyprune/eval/summary.hpp>

namespace lazyprune {
namespace program {
namespace {

class evaluation {
 public:
  evaluation(const eval_flags& flags, const policy_registry& policies)
      : flags_(flags), run_(flags.model, flags.backend, flags.questions, policies), log_(run_, flags.predicted, flags.resume) {
    const chosen_policy chosen = policy_with_note(flags.policy, run_.model(), policies);
    setting_.policy = chosen.spec;
    setting_.method = flags.method.empty() ? chosen.line() : flags.method;
    for (std::size_t q = 0; q < run_.questions().size(); ++q) asks_.push_back({q, setting_, setting_.method});
    // With several jobs, the file has the samples in the order in which they were answered. So an interrupt loses no answer.
    log_.take_up(false, [&](const eval_prediction& done, const std::string& place) {
      check_dense_time(done, place);
      return setting_;
    });
  }

  std::vector<eval_summary> run() {
    answer(run_, log_, asks_, flags_.jobs, "evaluating", [&](std::span<const ask> asked) { return std::vector{predict(asked.front())}; });
    log_.commit(asks_);
    run_.tell_of_cut_prompts();
    std::vector<eval_summary> all;
    for (const eval_task* task : run_.questions().tasks()) {
      std::vector<eval_prediction> of_task;
      for (const std::size_t q : run_.questions().of_task(*task)) of_task.push_back(*log_.find(q, setting_.method));
      all.push_back(summary_of(*task, setting_.method, of_task));
    }
    return all;
  }

 private:
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
  prediction_log log_;
  eval_setting setting_;
  std::vector<ask> asks_;
};

}  // namespace

int eval(const eval_flags& flags, const policy_registry& policies) {
  const std::vector<eval_summary> summaries = flags.questions.data.empty()
                                                  ? std::vector{scored_predictions(flags.predictions, flags.questions.task, flags.method)}
                                                  : evaluation(flags, policies).run();
  std::cout << (flags.output == table_format::md ? to_markdown(summaries) : text_of(table_of(summaries), flags.output));
  return 0;
}

}  // namespace program
}  // namespace lazyprune
