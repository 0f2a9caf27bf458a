// SPDX-License-Identifier: MIT
#include "tables/summary_table.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

namespace {

eval_summary scores_only() {
  eval_summary s;
  s.task = "qasper";
  s.method = "dense|\"x\"";
  s.metric = "qa_f1";
  s.n = 20;
  s.score = {12.5, {10, 16}};
  return s;
}

eval_summary with_costs() {
  eval_summary s = scores_only();
  s.method = "lazy";
  s.lost = estimate{0.5, {-1, 2}};
  s.prompt_tokens = estimate{1900, {1800, 2000}};
  s.generated_tokens = estimate{12.5, {10, 15}};
  s.ttft_s = estimate{0.25, {0.24, 0.26}};
  s.dense_ttft_s = estimate{0.5, {0.5, 0.5}};
  s.speedup_ttft = estimate{2, {1.9, 2.1}};
  s.total_s = estimate{1, {0.5, 1.5}};
  s.speedup_total = estimate{1.25, {1, 1.5}};
  s.timed = 18;
  s.share_computed = estimate{0.625, {0.5, 0.75}};
  s.revived = estimate{7, {6, 8}};
  s.per_layer = {1, 0.5};
  s.usage = {{1, 0.5}, {1, 0.75}};
  s.peak_bytes = 3 << 20;
  return s;
}

}  // namespace

TEST_CASE("JSON has the documented keys, and leaves out unknown values") {
  const nlohmann::json list = nlohmann::json::parse(to_json(table_of(std::vector{scores_only(), with_costs()})));
  CHECK(list[0] ==
        nlohmann::json{
            {"task", "qasper"}, {"method", "dense|\"x\""}, {"metric", "qa_f1"}, {"score", 12.5}, {"ci95", {10.0, 16.0}}, {"n", 20}});
  nlohmann::json expected = list[0];
  expected.update({{"method", "lazy"},
                   {"lost", 0.5},
                   {"lost_ci95", {-1.0, 2.0}},
                   {"prompt_tokens", 1900.0},
                   {"prompt_tokens_ci95", {1800.0, 2000.0}},
                   {"generated_tokens", 12.5},
                   {"generated_tokens_ci95", {10.0, 15.0}},
                   {"ttft_s", 0.25},
                   {"ttft_s_ci95", {0.24, 0.26}},
                   {"dense_ttft_s", 0.5},
                   {"dense_ttft_s_ci95", {0.5, 0.5}},
                   {"speedup_ttft", 2.0},
                   {"speedup_ttft_ci95", {1.9, 2.1}},
                   {"total_s", 1.0},
                   {"total_s_ci95", {0.5, 1.5}},
                   {"speedup_total", 1.25},
                   {"speedup_total_ci95", {1.0, 1.5}},
                   {"timed", 18},
                   {"share_computed", 0.625},
                   {"share_computed_ci95", {0.5, 0.75}},
                   {"revived", 7.0},
                   {"revived_ci95", {6.0, 8.0}},
                   {"per_layer", {1.0, 0.5}},
                   {"usage", nlohmann::json::parse("[[1.0, 0.5], [1.0, 0.75]]")},
                   {"peak_bytes", 3 << 20}});
  CHECK(list[1] == expected);
}

TEST_CASE("CSV has a column for each value except `usage`") {
  CHECK(to_csv(table_of(std::vector{scores_only(), with_costs()})) ==
        "task,method,metric,score,ci95_low,ci95_high,n,lost,lost_low,lost_high,prompt_tokens,prompt_tokens_low,prompt_tokens_high,"
        "generated_tokens,generated_tokens_low,generated_tokens_high,ttft_s,"
        "ttft_s_low,ttft_s_high,"
        "dense_ttft_s,dense_ttft_s_low,dense_ttft_s_high,speedup_ttft,speedup_ttft_low,speedup_ttft_high,total_s,total_s_low,total_s_high,"
        "speedup_total,speedup_total_low,speedup_total_high,timed,"
        "share_computed,share_computed_low,share_computed_high,revived,revived_low,"
        "revived_high,per_layer,peak_bytes\n"
        "\"qasper\",\"dense|\"\"x\"\"\",\"qa_f1\",12.5,10.0,16.0,20,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n"
        "\"qasper\",\"lazy\",\"qa_f1\",12.5,10.0,16.0,20,0.5,-1.0,2.0,1900.0,1800.0,2000.0,12.5,10.0,15.0,0.25,0.24,0.26,0.5,0.5,0.5,2.0,1."
        "9,2.1,1.0,0.5,"
        "1.5,1.25,1.0,"
        "1.5,18,0.625,0.5,0.75,7.0,6.0,"
        "8.0,1.0 0.5,3145728\n");
}

TEST_CASE("Markdown says how many predictions were timed if not all were") {
  const auto table = [](std::uint64_t timed, std::uint64_t others) {
    std::vector<eval_summary> both{with_costs(), with_costs()};
    both[0].timed = timed;
    both[1].timed = others;
    return to_markdown(both);
  };
  CHECK(table(18, 20).find("| tokens | timed |     TTFT, ms |") != std::string::npos);
  CHECK(table(18, 20).find("|   1900 |    18 | 250.0 ") != std::string::npos);
  CHECK(table(18, 20).find("|   1900 |    20 | 250.0 ") != std::string::npos);
  CHECK(table(20, 20).find("timed") == std::string::npos);
  CHECK(table(0, 20).find("timed") == std::string::npos);  // the cells of its times are empty
}

TEST_CASE("Markdown has only columns that are not empty") {
  CHECK(to_markdown(std::vector{scores_only()}) ==
        "| task   | method     | metric |   n |        score |\n"
        "| ------ | ---------- | ------ | --: | -----------: |\n"
        "| qasper | dense\\|\"x\" | qa_f1  |  20 | 12.50 \xc2\xb1 3.00 |\n");
  const std::string both = to_markdown(std::vector{scores_only(), with_costs()});
  CHECK(
      both.find(
          "|   n |        score |        lost | tokens | timed |     TTFT, ms |   dense, ms |      speedup |      total, ms | total speedup |"
          "      computed | revived |    peak |\n") != std::string::npos);
  CHECK(
      both.find(
          "| qasper | lazy       | qa_f1  |  20 | 12.50 \xc2\xb1 3.00 | 0.50 \xc2\xb1 1.50 |   1900 |    18 | 250.0 \xc2\xb1 10.0 | 500.0 "
          "\xc2\xb1 0.0 | 2.00 \xc2\xb1 "
          "0.10x | 1000.0 \xc2\xb1 500.0 |  1.25 \xc2\xb1 0.25x | 62.5 \xc2\xb1 12.5 % |       7 | 3.0 MiB |\n") != std::string::npos);
}
