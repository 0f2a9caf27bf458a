// SPDX-License-Identifier: MIT
#include <lazyprune/eval/pooled.hpp>

#include <doctest/doctest.h>

#include <lazyprune/eval/tasks.hpp>

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

namespace {

const eval_task& qasper = *find_task("qasper");

eval_prediction prediction(std::string text, double ttft, std::uint64_t rows) {
  return {.text = std::move(text),
          .answers = {"right"},
          .all_classes = {},
          .length = {},
          .id = "a",
          .cost = eval_cost{.model = "m",
                            .method = "random 0.5",
                            .prompt_tokens = 10,
                            .generated_tokens = rows,
                            .ttft_s = ttft,
                            .dense_ttft_s = 4,
                            .total_s = 2 * ttft,
                            .dense_total_s = {},
                            .share_computed = ttft / 8,
                            .rows = {10, rows},
                            .revived = rows,
                            .usage = {{10, rows}, {10, 10}},
                            .peak_bytes = 100 * rows}};
}

}  // namespace

TEST_CASE("a single run stays as it is") {
  const std::vector<eval_prediction> runs{prediction("right", 1, 4)};
  const pooled_prediction one = pooled(qasper, runs);
  CHECK(one.prediction == runs[0]);
  CHECK(one.score == 1.0);
}

TEST_CASE("several runs have the means of their scores and costs") {
  const std::vector<eval_prediction> runs{prediction("right", 1, 4), prediction("wrong", 2, 5), prediction("right", 3, 7)};
  const pooled_prediction all = pooled(qasper, runs);
  CHECK(all.score == doctest::Approx(2.0 / 3).epsilon(1e-14));
  eval_prediction expected = runs[0];
  expected.cost->generated_tokens = 5;
  expected.cost->ttft_s = 2;
  expected.cost->total_s = 4;
  expected.cost->share_computed = 0.25;
  expected.cost->rows = {10, 5};  // 16 / 3, rounded
  expected.cost->revived = 5;
  expected.cost->usage = {{10, 5}, {10, 10}};
  expected.cost->peak_bytes = 700;
  CHECK(all.prediction == expected);
}

TEST_CASE("values that some run lacks are left out") {
  std::vector<eval_prediction> runs{prediction("right", 1, 4), prediction("right", 1, 4)};
  runs[0].cost->ttft_s.reset();
  runs[1].cost->total_s.reset();
  runs[1].cost->generated_tokens.reset();
  runs[1].cost->usage.pop_back();
  const pooled_prediction all = pooled(qasper, runs);
  CHECK_FALSE(all.prediction.cost->ttft_s);
  CHECK_FALSE(all.prediction.cost->total_s);
  CHECK_FALSE(all.prediction.cost->generated_tokens);
  CHECK(all.prediction.cost->usage.empty());
  CHECK(all.prediction.cost->dense_ttft_s == 4.0);

  runs[1].cost->rows = {10};
  CHECK(error_of([&] { pooled(qasper, runs); }) == at("qasper: runs"));
  runs[1].cost.reset();
  CHECK(error_of([&] { pooled(qasper, runs); }) == at("qasper: runs"));
  runs[0].cost.reset();
  CHECK_THROWS_AS(pooled(qasper, runs), error);
  CHECK(error_of([&] { pooled(qasper, {}); }) == at("qasper: runs"));
}
