// SPDX-License-Identifier: MIT
// The metrics by name, and the score of a prediction with several answers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/eval/metrics/classification.hpp>
#include <lazyprune/eval/metrics/code_similarity.hpp>
#include <lazyprune/eval/metrics/numbers.hpp>
#include <lazyprune/eval/metrics/qa_f1.hpp>
#include <lazyprune/eval/metrics/rouge_l.hpp>
#include <lazyprune/eval/metrics/string_match.hpp>

namespace lazyprune {
inline namespace v0 {

enum class eval_metric : std::uint8_t {
  qa_f1,
  qa_f1_chars,
  rouge_l,
  rouge_l_chars,
  classification,
  retrieval,
  retrieval_zh,
  count,
  code_sim,
  string_match_all,
  string_match_part,
  exact_match
};

constexpr std::string_view name_of(eval_metric metric) {
  constexpr std::array<std::string_view, 12> names{"qa_f1",          "qa_f1_chars",      "rouge_l",           "rouge_l_chars",
                                                   "classification", "retrieval",        "retrieval_zh",      "count",
                                                   "code_sim",       "string_match_all", "string_match_part", "exact_match"};
  return names[static_cast<std::size_t>(metric)];
}

/// Returns the score of a prediction, from 0 to 1. Most metrics score the prediction against each answer and take the best score, or 0 if
/// there are no answers. string_match_all and string_match_part score it against all answers at once. `classes`: the names of all classes;
/// only classification needs them. Throws `error` if classification gets no `classes`, if string_match_all or string_match_part gets no
/// answers, or if an answer of retrieval or retrieval_zh does not name a paragraph.
inline double score_of(eval_metric metric, std::string_view prediction, const std::vector<std::string>& answers,
                       const std::vector<std::string>* classes = nullptr) {
  const auto best = [&](auto score) {
    double most = 0.0;
    for (const std::string& answer : answers) most = std::max(most, score(prediction, answer));
    return most;
  };
  switch (metric) {
    case eval_metric::qa_f1:
      return best(qa_f1);
    case eval_metric::qa_f1_chars:
      return best(qa_f1_chars);
    case eval_metric::rouge_l:
      return best(rouge_l);
    case eval_metric::rouge_l_chars:
      return best(rouge_l_chars);
    case eval_metric::classification:
      if (!classes) throw error("", "all_classes", "the names of the classes", "none");
      return best([&](std::string_view p, std::string_view a) { return classification_score(p, a, *classes); });
    case eval_metric::retrieval:
      return best(retrieval_score);
    case eval_metric::retrieval_zh:
      return best(retrieval_zh_score);
    case eval_metric::count:
      return best(count_score);
    case eval_metric::code_sim:
      return best(code_similarity);
    case eval_metric::string_match_all:
      return string_match_all(prediction, answers);
    case eval_metric::string_match_part:
      return string_match_part(prediction, answers);
    case eval_metric::exact_match:
      return best(exact_match);
  }
  return 0.0;
}

}  // namespace v0
}  // namespace lazyprune
