// SPDX-License-Identifier: MIT
// The answers of `eval` and `sweep` in the folder of a part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "questions/run_record.hpp"

#include <lazyprune/eval/records.hpp>

namespace lazyprune {
namespace program {

struct recorded_prediction {
  static constexpr std::string_view file_name = "predictions.jsonl";

  eval_prediction value;

  static recorded_prediction read(const json_value& object) {
    recorded_prediction prediction{read_prediction(object)};
    if (!prediction.value.cost) throw error(object.file(), object.place(), "a prediction that this program made", "one of another program");
    return prediction;
  }

  std::string line() const { return to_line(value); }

  /// The hash by which the prediction is found, as in recorded_sample::asks.
  std::uint64_t digest() const {
    const eval_cost& cost = *value.cost;
    return ask_digest(cost.model, cost.method, cost.asked, value.id, value.answers, cost.dense_ttft_s.has_value());
  }

  /// Returns whether the predictions are equal, apart from times and from the memory, which depends on the number of threads.
  bool same_but_times(const recorded_prediction& other) const { return without_times() == other.without_times(); }

 private:
  eval_prediction without_times() const {
    eval_prediction all = value;
    for (std::optional<double> eval_cost::*seconds :
         {&eval_cost::ttft_s, &eval_cost::dense_ttft_s, &eval_cost::total_s, &eval_cost::dense_total_s})
      ((*all.cost).*seconds).reset();
    all.cost->timed_on.clear();
    all.cost->peak_bytes = 0;
    return all;
  }
};

}  // namespace program
}  // namespace lazyprune
