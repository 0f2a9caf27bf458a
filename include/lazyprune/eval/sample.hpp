// SPDX-License-Identifier: MIT
// The records of benchmarks, one JSON object a line: samples as LongBench, RULER and the pocket tasks write them, and predictions in
// LongBench's form, {"pred", "answers", "all_classes", "length"}. To it we add "_id", and "run" with what the prediction cost: keys that
// LongBench's own eval.py passes over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/io/json.hpp>
#include <lazyprune/io/line_reader.hpp>

namespace lazyprune {
inline namespace v0 {

/// A question and its answers. LongBench's keys; RULER's `outputs` are answers, its `input`, with the `answer_prefix` that may stand apart,
/// is `input`, its `index` is `id`.
struct eval_sample {
  std::string id;  // empty: none
  std::string input;
  std::string context;
  std::vector<std::string> answers;
  std::optional<std::vector<std::string>> all_classes;
  std::optional<std::uint64_t> length;  // LongBench: words, or Chinese characters; RULER and the pocket tasks: tokens
  std::string dataset;                  // empty: the record does not say
  std::string language;
  friend bool operator==(const eval_sample&, const eval_sample&) = default;
};

/// What made a prediction, and what it took.
struct eval_cost {
  std::string model;    // its directory
  std::string method;   // what pruned it
  std::string asked{};  // how: flags, and what stands for the prompt; runs that differ in it answer other questions; empty: an older record
  std::size_t prompt_tokens = 0;
  std::optional<std::uint64_t> generated_tokens;  // EOS included; none: an older record
  std::optional<double> ttft_s;                   // time to first token; none: answered beside others, whose work is in any time
  std::optional<double> dense_ttft_s;             // of the dense model, where it ran too
  std::optional<double> total_s;                  // of the whole generation; none: likewise, or an older record
  std::optional<double> dense_total_s;            // of the dense model's
  double share_computed = 0;                      // of prompt tokens and layers, the part computed by the end (the paper's Table 2)
  std::vector<std::uint64_t> rows;                // (layers), computed in the prefill
  std::uint64_t revived = 0;                      // rows, over layers and steps
  // (11, layers): prompt tokens that each layer has computed by 0 %, 10 % ... 100 % of the generation's steps; empty: an older record
  std::vector<std::vector<std::uint64_t>> usage;
  std::uint64_t peak_bytes = 0;  // weights included
  friend bool operator==(const eval_cost&, const eval_cost&) = default;
};

struct eval_prediction {
  std::string text;
  std::vector<std::string> answers;
  std::optional<std::vector<std::string>> all_classes;
  std::optional<std::uint64_t> length;
  std::string id;                 // empty: none
  std::optional<eval_cost> cost;  // none: somebody else's prediction
  friend bool operator==(const eval_prediction&, const eval_prediction&) = default;
};

namespace detail {

inline constexpr std::size_t longest_record = std::size_t{1} << 28;  // bytes

inline std::vector<std::string> strings_of(const json_value& list) {
  std::vector<std::string> out;
  for (const json_value& item : list.items()) out.push_back(item.string());
  return out;
}

inline std::string string_at(const json_value& object, std::string_view key) {
  const auto value = object.find(key);
  return value ? value->string() : std::string();
}

/// `_id`, or RULER's `index`.
inline std::string id_of(const json_value& object) {
  if (const auto id = object.find("_id")) return id->is_number() ? std::to_string(id->whole_number()) : id->string();
  if (const auto index = object.find("index")) return std::to_string(index->whole_number());
  return {};
}

/// What samples and predictions have in common.
template <class Record>
void read_answers(const json_value& object, Record& to) {
  to.answers = strings_of(object.has("outputs") ? object.at("outputs") : object.at("answers"));
  if (const auto classes = object.find("all_classes")) to.all_classes = strings_of(*classes);
  if (const auto length = object.find("length"); length && length->number() != -1)
    to.length = length->whole_number();  // -1: RULER's unknown
  to.id = id_of(object);
}

inline eval_sample sample_of(const json_value& object) {
  eval_sample sample;
  sample.input = object.at("input").string() + string_at(object, "answer_prefix");
  sample.context = object.has("outputs") ? string_at(object, "context") : object.at("context").string();
  sample.dataset = string_at(object, "dataset");
  sample.language = string_at(object, "language");
  read_answers(object, sample);
  return sample;
}

inline std::vector<std::uint64_t> whole_numbers_of(const json_value& list) {
  std::vector<std::uint64_t> out;
  for (const json_value& item : list.items()) out.push_back(item.whole_number());
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
  cost.prompt_tokens = object.at("prompt_tokens").whole_number();
  if (const auto generated = object.find("generated_tokens")) cost.generated_tokens = generated->whole_number();
  if (const auto first = object.find("ttft_s")) cost.ttft_s = seconds(*first);
  if (const auto dense = object.find("dense_ttft_s")) cost.dense_ttft_s = seconds(*dense);
  if (const auto total = object.find("total_s")) cost.total_s = seconds(*total);
  if (const auto dense = object.find("dense_total_s")) cost.dense_total_s = seconds(*dense);
  cost.share_computed = object.at("share_computed").number();
  cost.rows = whole_numbers_of(object.at("per_layer"));
  cost.revived = object.at("revived").whole_number();
  if (const auto usage = object.find("usage"))
    for (const json_value& tokens : usage->items()) cost.usage.push_back(whole_numbers_of(tokens));
  cost.peak_bytes = object.at("peak_bytes").whole_number();
  return cost;
}

inline eval_prediction prediction_of(const json_value& object) {
  eval_prediction prediction;
  prediction.text = object.at("pred").string();
  if (const auto run = object.find("run")) prediction.cost = cost_of(*run);
  read_answers(object, prediction);
  return prediction;
}

/// A record a line; empty lines are none.
template <class Record, class Read>
std::vector<Record> read_records(line_reader& lines, Read read, const std::function<void(const error&)>& on_bad) {
  std::vector<Record> records;
  for (;;) {
    try {
      const auto line = lines.next();
      if (!line) return records;
      if (line->find_first_not_of(" \t\r") == line->npos) continue;
      records.push_back(read(json_value::parse(*line, lines.name(), longest_record, "line " + std::to_string(lines.number()))));
    } catch (const error& fault) {
      if (!on_bad || fault.code() == error_code::io) throw;
      on_bad(fault);
    }
  }
}

}  // namespace detail

/// All samples. A line that is none is told to `on_bad` ("FILE: line 3: answers: expected ..., found ...") and left out; without
/// `on_bad` it is thrown. So is one at which `check` throws `error`: it sees the sample and the record that it was read from, which has
/// its place. Throws one of code io where reading fails.
inline std::vector<eval_sample> read_samples(line_reader& lines, const std::function<void(const error&)>& on_bad = {},
                                             const std::function<void(const eval_sample&, const json_value&)>& check = {}) {
  const auto read = [&](const json_value& record) {
    eval_sample sample = detail::sample_of(record);
    if (check) check(sample, record);
    return sample;
  };
  return detail::read_records<eval_sample>(lines, read, on_bad);
}

/// All predictions, LongBench's or RULER's; bad lines as above.
inline std::vector<eval_prediction> read_predictions(line_reader& lines, const std::function<void(const error&)>& on_bad = {}) {
  return detail::read_records<eval_prediction>(lines, detail::prediction_of, on_bad);
}

/// The prediction as a line, without the line's end.
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
    run["share_computed"] = cost->share_computed;
    run["per_layer"] = cost->rows;
    run["revived"] = cost->revived;
    if (!cost->usage.empty()) run["usage"] = cost->usage;
    run["peak_bytes"] = cost->peak_bytes;
    out["run"] = std::move(run);
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace v0
}  // namespace lazyprune
