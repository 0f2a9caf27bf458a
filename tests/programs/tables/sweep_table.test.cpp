// SPDX-License-Identifier: MIT
#include "tables/sweep_table.hpp"

#include <span>

#include <doctest/doctest.h>

#include "tables/summary_table.hpp"

using namespace lazyprune;
using namespace lazyprune::program;

namespace {

eval_summary summary(std::string task, double score) {
  eval_summary s;
  s.task = std::move(task);
  s.method = "m";
  s.metric = "qa_f1";
  s.n = 2;
  s.score = {score, {score - 1, score + 1}};
  return s;
}

const sweep_table sweep{
    .model = "pocket",
    .layers = 6,
    .entries = {{"dense", {}, "--policy dense", summary("qasper", 12.5)}, {"lazyllm@3+5", 0.6, "--stages \"x\"", summary("qasper", 11)}},
    .sensitivity = {{3, 0.5, "--stages 3:0.5 --scorer x", summary("qasper", 10)}},
    .sensitivity_dense = {summary("qasper", 12)}};

}  // namespace

TEST_CASE("CSV: the method, its budget and its policy, then the columns of a summary") {
  const std::string none = ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n";
  const std::string of_summaries = to_csv(table_of(std::span<const eval_summary>())), before = "task,method,";
  REQUIRE(of_summaries.starts_with(before));
  const std::string keys = of_summaries.substr(before.size(), of_summaries.size() - before.size() - 1);
  CHECK(to_csv(table_of(sweep)) == "task,method,budget,policy," + keys +
                                       "\n\"qasper\",\"dense\",,\"--policy dense\",\"qa_f1\",12.5,11.5,13.5,2" + none +
                                       "\"qasper\",\"lazyllm@3+5\",0.6,\"--stages \"\"x\"\"\",\"qa_f1\",11.0,10.0,12.0,2" + none +
                                       "\"qasper\",\"dense (single stages)\",,\"--policy dense\",\"qa_f1\",12.0,11.0,13.0,2" + none +
                                       "\"qasper\",\"single_stage@3\",0.75,\"--stages 3:0.5 --scorer x\",\"qa_f1\",10.0,9.0,11.0,2" + none);
}

TEST_CASE("Markdown: the budget is beside the method") {
  CHECK(to_markdown(sweep) ==
        "| task   | method          | metric |   n |        score |\n"
        "| ------ | --------------- | ------ | --: | -----------: |\n"
        "| qasper | dense           | qa_f1  |   2 | 12.50 \xc2\xb1 1.00 |\n"
        "| qasper | lazyllm@3+5 0.6 | qa_f1  |   2 | 11.00 \xc2\xb1 1.00 |\n");
}
