// SPDX-License-Identifier: MIT
// Reads metric_cases.jsonl, which make_metric_cases.py writes: the scores that Python's own packages give to predictions and answers. The
// script can write thousands more cases; this library agrees with all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/eval/records.hpp>

#include <test_data.hpp>

struct metric_case {
  std::string prediction;
  std::vector<std::string> answers;
  std::vector<std::string> classes;
  std::optional<double> value;  // none: the benchmark's program raises an exception
};

inline std::vector<metric_case> metric_cases(std::string_view metric) {
  std::vector<metric_case> cases;
  lazyprune::line_reader lines(source_dir() / "tests/eval/metric_cases.jsonl");
  while (const auto line = lines.next()) {
    const auto object = lazyprune::json_value::parse(*line, lines.name(), line->size(), "line " + std::to_string(lines.number()));
    if (object.at("metric").string() != metric) continue;
    metric_case found;
    found.prediction = object.at("pred").string();
    found.answers = lazyprune::detail::strings_of(object.at("answers"));
    if (const auto classes = object.find("all_classes")) found.classes = lazyprune::detail::strings_of(*classes);
    if (const auto value = object.find("value")) found.value = value->number();
    cases.push_back(std::move(found));
  }
  REQUIRE(!cases.empty());
  return cases;
}

/// Compares each case with the best `score(prediction, answer)` over its answers.
template <class Score>
void check_best(std::string_view metric, Score score) {
  for (const metric_case& c : metric_cases(metric)) {
    CAPTURE(c.prediction);
    double best = 0;
    for (const std::string& answer : c.answers) {
      if (c.value)
        best = std::max(best, score(c.prediction, answer, c.classes));
      else
        CHECK_THROWS_AS(score(c.prediction, answer, c.classes), lazyprune::error);
    }
    // The score is a few products and quotients of numbers near 1. Their order may differ from Python's, and so may the rounding.
    if (c.value) CHECK(best == doctest::Approx(*c.value).epsilon(1e-14));
  }
}
