// SPDX-License-Identifier: MIT
// Samples of a benchmark and the predictions for them, as in LongBench, RULER and the pocket tasks (eval/records.hpp reads them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// A question and its answers. The members have the names of LongBench's keys. RULER's `outputs` are `answers`, and its `index` is `id`.
struct eval_sample {
  std::string id;  // empty: none
  std::string input;
  std::string answer_prefix{};  // RULER: the beginning of the answer; empty: none, or `input` ends with it
  std::string context;
  std::vector<std::string> answers;
  std::optional<std::vector<std::string>> all_classes;
  std::optional<std::uint64_t> length;  // LongBench: words, or Chinese characters; RULER and the pocket tasks: tokens
  std::string dataset;                  // empty: not recorded
  std::string language;
  friend bool operator==(const eval_sample&, const eval_sample&) = default;
};

/// The origin and the cost of a prediction.
struct eval_cost {
  std::string model;    // its path
  std::string method;   // the pruning method
  std::string asked{};  // all that the answer depends on: flags, hashes of the model, chat template and prompt; empty: an older record
  std::size_t prompt_tokens = 0;
  std::optional<std::uint64_t> generated_tokens;  // including EOS; none: an older record
  std::optional<double> ttft_s;                   // time to first token; none: answered in a batch, whose times include the other answers
  std::optional<double> dense_ttft_s;             // ttft_s of the dense model, if it ran too
  std::optional<double> total_s;                  // time of the whole generation; none: answered in a batch, or an older record
  std::optional<double> dense_total_s;            // total_s of the dense model
  std::string timed_on{};                         // the instruction set and threads, or the GPU; empty: no times, or an older record
  double share_computed = 0;                      // share of the (prompt token, layer) pairs computed by the end (the paper's Table 2)
  std::vector<std::uint64_t> rows;                // (layers): rows computed in the prefill
  std::uint64_t revived = 0;                      // revived rows, summed over layers and steps
  // (11, layers): prompt tokens that each layer has computed after 0 %, 10 % ... 100 % of the decode steps; empty: an older record
  std::vector<std::vector<std::uint64_t>> usage;
  std::uint64_t peak_bytes = 0;  // most memory in use at one time, including the weights
  friend bool operator==(const eval_cost&, const eval_cost&) = default;
};

struct eval_prediction {
  std::string text;
  std::vector<std::string> answers;
  std::optional<std::vector<std::string>> all_classes;
  std::optional<std::uint64_t> length;
  std::string id;                 // empty: none
  std::optional<eval_cost> cost;  // none: another program made the prediction
  friend bool operator==(const eval_prediction&, const eval_prediction&) = default;
};

}  // namespace v0
}  // namespace lazyprune
