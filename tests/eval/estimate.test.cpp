// SPDX-License-Identifier: MIT
#include <lazyprune/eval/estimate.hpp>

#include <string>

#include <doctest/doctest.h>

using lazyprune::estimate, lazyprune::estimate_of, lazyprune::mean_over, lazyprune::ratio_of;

TEST_CASE("a mean is in its interval, which is a point if all samples are equal") {
  const estimate e = estimate_of(std::vector<double>{1, 2, 6});
  CHECK(e.mean == 3);
  CHECK(e.ci95.low >= 1);
  CHECK(e.ci95.low < 3);
  CHECK(e.ci95.high > 3);
  CHECK(e.ci95.high <= 6);
  CHECK(estimate_of(std::vector<double>{4, 4, 4}) == estimate{4, {4, 4}});
}

TEST_CASE("a ratio is the ratio of the sums, and the two numbers of a sample are drawn together") {
  const std::vector<double> lower{1, 10, 100};
  std::vector<double> upper;
  for (const double l : lower) upper.push_back(2 * l);
  CHECK(ratio_of(upper, lower) == estimate{2, {2, 2}});
  CHECK(ratio_of(std::vector<double>{1, 3}, std::vector<double>{1, 1}).mean == 2);
}

TEST_CASE("the order of the samples changes no bit of an estimate") {
  const std::vector<double> values{0.1, 0.7, 0.2, 1e9, 0.3, 0.1}, mixed{0.3, 0.1, 1e9, 0.1, 0.7, 0.2};
  CHECK(estimate_of(values) == estimate_of(mixed));
  const std::vector<double> others{5, 6, 7, 8, 9, 10}, others_mixed{9, 5, 8, 10, 6, 7};
  CHECK(ratio_of(values, others) == ratio_of(mixed, others_mixed));
  CHECK(ratio_of(values, others).ci95 != ratio_of(values, others_mixed).ci95);  // other pairs
}

TEST_CASE("tasks have equal weights, and their intervals add like those of independent means") {
  const std::vector<estimate> tasks{{10, {7, 13}}, {20, {16, 24}}};
  const auto known = [](const estimate& e) { return std::optional(e); };
  CHECK(mean_over(tasks, known) == estimate{15, {12.5, 17.5}});  // each end is half of sqrt(3^2 + 4^2) from the mean
  CHECK(mean_over(tasks, [](const estimate& e) { return e.mean > 10 ? std::optional(e) : std::nullopt; }) == std::nullopt);
}
