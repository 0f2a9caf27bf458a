// SPDX-License-Identifier: MIT
#include <lazyprune/eval/metric.hpp>

#include <doctest/doctest.h>

#include <eval/metric_cases.hpp>
#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

TEST_CASE("score_of agrees with the cases of every metric, whether the metric takes the best answer or needs all answers") {
  std::size_t seen = 0;
  for (std::size_t m = 0; m < 12; ++m) {
    const auto metric = static_cast<eval_metric>(m);
    CAPTURE(name_of(metric));
    for (const metric_case& c : metric_cases(name_of(metric))) {
      CAPTURE(c.prediction);
      if (c.value)
        CHECK(score_of(metric, c.prediction, c.answers, &c.classes) == doctest::Approx(*c.value).epsilon(1e-14));  // only rounding differs
      else
        CHECK_THROWS_AS(score_of(metric, c.prediction, c.answers, &c.classes), error);
      ++seen;
    }
  }
  CHECK(seen > 250);
}

TEST_CASE("classification needs the classes") {
  CHECK(error_of([&] { score_of(eval_metric::classification, "x", {"x"}); }) == at("all_classes"));
}
