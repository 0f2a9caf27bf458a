// SPDX-License-Identifier: MIT
// The records of benchmarks, one JSON object per line. Samples have the form of LongBench, RULER or the pocket tasks. Predictions have
// LongBench's form, {"pred", "answers", "all_classes", "length"}. We add two keys: "_id", and "run" with the cost of the prediction.
// LongBench's own eval.py ignores both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/sample.hpp>
#include <lazyprune/eval/summary.hpp>
#include <lazyprune/files/json.hpp>
#include <lazyprune/files/json_lines.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

inline std::vector<std::string> strings_of(const json_value& list) {
  std::vector<std::string> out;
  list.each_item([&](const json_value& item) { out.push_back(item.string()); });
  return out;
}

inline std::string string_at(const json_value& object, std::string_view key) {
  const auto value = object.find(key);
  return value ? value->string() : std::string();
}

/// Returns the value of `_id`, or of RULER's `index`.
inline std::string id_of(const json_value& object) {
  if (const auto id = object.find("_id")) return id->is_number() ? std::to_string(id->whole_number()) : id->string();
  if (const auto index = object.find("index")) return std::to_string(index->whole_number());
  return {};
}

/// Reads the keys that samples and predictions share.
template <class Record>
void read_answers(const json_value& object, Record& to) {
  to.answers = strings_of(object.has("outputs") ? object.at("outputs") : object.at("answers"));
  if (const auto classes = object.find("all_classes")) to.all_classes = strings_of(*classes);
  if (const auto length = object.find("length"); length && length->number() != -1)
    to.length = length->whole_number();  // RULER writes -1 for an unknown length
  to.id = id_of(object);
}

inline eval_sample sample_of(const json_value& object) {
  eval_sample sample;
  sample.input = object.at("input").string();
  sample.answer_prefix = string_at(object, "answer_prefix");
  sample.context = object.has("outputs") ? string_at(object, "context") : object.at("context").string();
  sample.dataset = string_at(object, "dataset");
  sample.language = string_at(object, "language");
  read_answers(object, sample);
  return sample;
}

inline std::vector<std::uint64_t> whole_numbers_of(const json_value& list) {
  std::vector<std::uint64_t> out;
  list.each_item([&](const json_value& item) { out.push_back(item.whole_number()); });
  return out;
}

inline eval_cost cost_of(const json_value& object) {
  const auto seconds = [](const json_value& value) {
    if (value.number() < 0) value.refuse("seconds");
    return value.number();
  };
  eval_cost cost;
  cost.model = object.at("model").string();
  cost.method = object.at("method").string();
  cost.asked = string_at(object, "asked");
  cost.prompt_tokens = object.at("prompt_tokens").whole_number(1);
  if (const auto generated = object.find("generated_tokens")) cost.generated_tokens = generated->whole_number();
  if (const auto first = object.find("ttft_s")) cost.ttft_s = seconds(*first);
  if (const auto dense = object.find("dense_ttft_s")) cost.dense_ttft_s = seconds(*dense);
  if (const auto total = object.find("total_s")) cost.total_s = seconds(*total);
  if (const auto dense = object.find("dense_total_s")) cost.dense_total_s = seconds(*dense);
  cost.timed_on = string_at(object, "timed_on");
  cost.share_computed = object.at("share_computed").number();
  cost.rows = whole_numbers_of(object.at("per_layer"));
  cost.revived = object.at("revived").whole_number();
  if (const auto usage = object.find("usage"))
    for (const json_value& tokens : usage->items()) cost.usage.push_back(whole_numbers_of(tokens));
  cost.peak_bytes = object.at("peak_bytes").whole_number();
  return cost;
}

}  // namespace detail

/// Reads all samples. A bad line is reported to `on_bad` ("FILE: line 3: answers: expected ..., found ...") and skipped. Without `on_bad`,
/// its error is thrown. `check` is called with each sample and its JSON record. The record knows its file and line. A line is also bad if
/// `check` throws `error`. Throws `error` of code io if reading fails.
inline std::vector<eval_sample> read_samples(line_reader& lines, const std::function<void(const error&)>& on_bad = {},
                                             const std::function<void(const eval_sample&, const json_value&)>& check = {}) {
  const auto read = [&](const json_value& record) {
    eval_sample sample = detail::sample_of(record);
    if (check) check(sample, record);
    return sample;
  };
  return read_json_lines<eval_sample>(lines, read, on_bad);
}

/// Reads a prediction, in LongBench's or RULER's form. Throws `error` if it is bad.
inline eval_prediction read_prediction(const json_value& object) {
  eval_prediction prediction;
  prediction.text = object.at("pred").string();
  if (const auto run = object.find("run")) prediction.cost = detail::cost_of(*run);
  detail::read_answers(object, prediction);
  return prediction;
}

/// Reads all predictions, in LongBench's or RULER's form. Bad lines are treated as in `read_samples`.
inline std::vector<eval_prediction> read_predictions(line_reader& lines, const std::function<void(const error&)>& on_bad = {}) {
  return read_json_lines<eval_prediction>(lines, read_prediction, on_bad);
}

/// Returns the prediction as a line, without a line break.
inline std::string to_line(const eval_prediction& prediction) {
  nlohmann::ordered_json out{{"pred", prediction.text}, {"answers", prediction.answers}, {"all_classes", nullptr}};
  if (prediction.all_classes) out["all_classes"] = *prediction.all_classes;
  if (prediction.length) out["length"] = *prediction.length;
  if (!prediction.id.empty()) out["_id"] = prediction.id;
  if (const auto& cost = prediction.cost) {
    nlohmann::ordered_json run{{"model", cost->model}, {"method", cost->method}};
    if (!cost->asked.empty()) run["asked"] = cost->asked;
    run["prompt_tokens"] = cost->prompt_tokens;
    if (cost->generated_tokens) run["generated_tokens"] = *cost->generated_tokens;
    if (cost->ttft_s) run["ttft_s"] = *cost->ttft_s;
    if (cost->dense_ttft_s) run["dense_ttft_s"] = *cost->dense_ttft_s;
    if (cost->total_s) run["total_s"] = *cost->total_s;
    if (cost->dense_total_s) run["dense_total_s"] = *cost->dense_total_s;
    if (!cost->timed_on.empty()) run["timed_on"] = cost->timed_on;
    run["share_computed"] = cost->share_computed;
    run["per_layer"] = cost->rows;
    run["revived"] = cost->revived;
    if (!cost->usage.empty()) run["usage"] = cost->usage;
    run["peak_bytes"] = cost->peak_bytes;
    out["run"] = std::move(run);
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Scores existing predictions, without a model. A line that is bad or cannot be scored is reported to `on_bad` and skipped. Without
/// `on_bad`, its error is thrown. Throws `error` if no line was scored.
inline eval_summary score_predictions(line_reader& lines, const eval_task& task, std::string_view method,
                                      const std::function<void(const error&)>& on_bad = {}, const bootstrap& draws = {}) {
  std::vector<double> scores;
  const auto read = [&](const json_value& object) {
    eval_prediction prediction = read_prediction(object);
    try {
      scores.push_back(score_of(task, prediction));
    } catch (const error& fault) {
      throw error(object.file(), object.place(), "a prediction that " + std::string(task.name) + " can score", fault.what());
    }
    return prediction;
  };
  const std::vector<eval_prediction> predictions = read_json_lines<eval_prediction>(lines, read, on_bad);
  if (predictions.empty()) throw error(lines.name(), "", "at least one prediction", "none");
  return summary_of(task, method, predictions, std::move(scores), draws);
}

}  // namespace v0
}  // namespace lazyprune
