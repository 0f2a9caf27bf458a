// SPDX-License-Identifier: MIT
#include <lazyprune/eval/summary.hpp>

#include <doctest/doctest.h>

#include <lazyprune/eval/tasks.hpp>

#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

eval_prediction prediction(std::string text, std::optional<eval_cost> cost = {}) {
  return {.text = std::move(text), .answers = {"right"}, .all_classes = {}, .length = {}, .id = "", .cost = std::move(cost)};
}

eval_cost cost(std::size_t tokens, double ttft, double dense, std::vector<std::uint64_t> rows) {
  return {.model = "m",
          .method = "m",
          .prompt_tokens = tokens,
          .generated_tokens = tokens + 5,
          .ttft_s = ttft,
          .dense_ttft_s = dense,
          .total_s = 2 * ttft,
          .dense_total_s = 2.5 * dense,
          .share_computed = 0.5 * ttft,
          .rows = std::move(rows),
          .revived = 2 * tokens,
          .usage = {{tokens, 1}, {tokens, tokens}},
          .peak_bytes = 1000 * tokens};
}

const eval_task& question_task = *find_task("qasper");

}  // namespace

TEST_CASE("a summary of scores without costs") {
  const std::vector<eval_prediction> all{prediction("right"), prediction("wrong"), prediction("right wrong")};
  const eval_summary summary = summary_of(question_task, "dense", all);
  CHECK(summary.task == "qasper");
  CHECK(summary.method == "dense");
  CHECK(summary.metric == "qa_f1");
  CHECK(summary.n == 3);
  CHECK(summary.score.mean == doctest::Approx((100 + 0 + 200.0 / 3) / 3).epsilon(1e-14));
  CHECK(summary.score.ci95 == bootstrap{}(std::vector<double>{100, 0, 100 * score_of(question_task, all[2])}));
  CHECK_FALSE(summary.lost);
  CHECK_FALSE(summary.ttft_s);
  CHECK_FALSE(summary.share_computed);
  CHECK_FALSE(summary.peak_bytes);
  CHECK_FALSE(summary.timed);
  CHECK(summary.per_layer.empty());
}

TEST_CASE("a summary has costs if every prediction has them") {
  std::vector<eval_prediction> all{prediction("right", cost(10, 1, 2, {10, 5})), prediction("wrong", cost(30, 3, 12, {30, 5}))};
  eval_summary summary = summary_of(question_task, "m", all);
  CHECK(summary.prompt_tokens->mean == 20);
  CHECK(summary.generated_tokens->mean == 25);
  CHECK(summary.ttft_s->mean == 2);
  CHECK(summary.dense_ttft_s->mean == 7);
  CHECK(summary.speedup_ttft->mean == 3.5);             // the ratio of the means; the mean of the ratios 2 and 4 would be 3
  CHECK(summary.speedup_ttft->ci95 == interval{2, 4});  // each prediction is drawn twice in a quarter of the draws
  CHECK(summary.total_s->mean == 4);
  CHECK(summary.speedup_total->mean == 17.5 / 4);
  CHECK(summary.timed == 2u);
  CHECK(summary.share_computed->mean == 1);
  CHECK(summary.revived->mean == 40);
  CHECK(summary.per_layer == std::vector<double>{1.0, 0.25});
  CHECK(summary.usage == std::vector<std::vector<double>>{{1.0, 0.05}, {1.0, 1.0}});
  CHECK(summary.peak_bytes == 30'000);

  // Times are means over the predictions that have times.
  all[0].cost->dense_ttft_s.reset();
  summary = summary_of(question_task, "m", all);
  CHECK(summary.ttft_s->mean == 2);
  CHECK(summary.dense_ttft_s->mean == 12);
  CHECK(summary.speedup_ttft->mean == 4);
  CHECK(summary.speedup_total->mean == 17.5 / 4);
  all[0].cost->dense_total_s.reset();
  CHECK(summary_of(question_task, "m", all).speedup_total->mean == 5);
  all[0].cost->total_s.reset(), all[0].cost->usage.clear(), all[0].cost->generated_tokens.reset();
  summary = summary_of(question_task, "m", all);
  CHECK_FALSE(summary.generated_tokens);
  CHECK(summary.total_s->mean == 6);
  CHECK(summary.usage.empty());
  all[0].cost->ttft_s.reset();
  CHECK(summary_of(question_task, "m", all).ttft_s->mean == 3);
  CHECK(summary_of(question_task, "m", all).timed == 1u);
  all[1].cost->ttft_s.reset();
  summary = summary_of(question_task, "m", all);
  CHECK_FALSE(summary.ttft_s);
  CHECK_FALSE(summary.speedup_ttft);
  CHECK(summary.timed == 0u);
  CHECK(summary.share_computed);
  all[0].cost.reset();
  CHECK_FALSE(summary_of(question_task, "m", all).ttft_s);
}

TEST_CASE("a loss compares scores in pairs") {
  const std::vector<double> dense{1, 0.5, 0.25}, scores{1, 0.25, 0.75};
  const estimate lost = loss_of(dense, scores);
  CHECK(lost.mean == doctest::Approx(-25.0 / 3).epsilon(1e-14));
  CHECK(lost.ci95 == bootstrap{}(std::vector<double>{0, 25, -50}));
  CHECK(loss_of(dense, dense) == estimate{0, {0, 0}});  // no loss, whatever the scores are
}

TEST_CASE("without predictions there is no summary") {
  CHECK(error_of([&] { summary_of(question_task, "m", {}); }) == at("qasper"));
}
