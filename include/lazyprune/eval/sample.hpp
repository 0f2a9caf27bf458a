// SPDX-License-Identifier: MIT
// A question of a benchmark, and what was answered to it: as LongBench, RULER and the pocket tasks have them (eval/records.hpp reads them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// A question and its answers. The names are LongBench's keys; RULER's `outputs` are answers, and its `index` is `id`.
struct eval_sample {
  std::string id;  // empty: none
  std::string input;
  std::string answer_prefix{};  // RULER: the words that the answer goes on from; empty: none, or `input` ends with them
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

}  // namespace v0
}  // namespace lazyprune
