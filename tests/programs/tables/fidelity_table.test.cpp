// SPDX-License-Identifier: MIT
#include "tables/fidelity_table.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace lazyprune;
using namespace lazyprune::program;

namespace {

std::vector<fidelity_entry> rated() {
  fidelity_summary one;
  one.text = "a|b.txt";
  one.policy = "--stages \"3:0.5\"";
  one.steps = 4;
  one.prompt_tokens = 100;
  one.agreement = {0.75, {0.25, 1.0}};
  one.kl = {0.125, {0.0, 0.25}};
  one.dense_perplexity = {8.0, {4.0, 16.0}};
  one.perplexity = {10.0, {5.0, 20.0}};
  one.parted_at = 3;
  one.rows = 0.5;
  one.ttft_s = 0.25;
  one.dense_ttft_s = 0.5;
  fidelity_summary all = one;
  all.text = "all";
  all.texts = 2;
  all.equal_texts = 1;
  all.parted_at.reset();
  all.ttft_s = 0;
  return {{.summary = one}, {.summary = all}};
}

}  // namespace

TEST_CASE("JSON") {
  const auto list = nlohmann::json::parse(to_json(table_of(rated())));
  REQUIRE(list.size() == 2);
  CHECK(
      list[0] ==
      nlohmann::json::parse(
          R"({"text": "a|b.txt", "policy": "--stages \"3:0.5\"", "method": null, "budget": null, "texts": 1, "steps": 4, "prompt_tokens": 100.0,
    "agreement": 0.75, "agreement_ci95": [0.25, 1.0], "kl": 0.125, "kl_ci95": [0.0, 0.25], "dense_perplexity": 8.0,
    "dense_perplexity_ci95": [4.0, 16.0], "perplexity": 10.0, "perplexity_ci95": [5.0, 20.0], "equal_texts": 0.0, "parted_at": 3, "rows": 0.5,
    "ttft_s": 0.25, "dense_ttft_s": 0.5, "speedup_ttft": 2.0})"));
  CHECK(list[1]["parted_at"].is_null());
  CHECK_FALSE(list[1].contains("speedup_ttft"));
}

TEST_CASE("CSV") {
  CHECK(
      to_csv(table_of(rated())) ==
      "text,policy,method,budget,texts,steps,prompt_tokens,agreement,agreement_low,agreement_high,kl,kl_low,kl_high,dense_perplexity,dense_perplexity_"
      "low,"
      "dense_perplexity_high,perplexity,perplexity_low,perplexity_high,equal_texts,parted_at,rows,ttft_s,dense_ttft_s,speedup_ttft\n"
      "\"a|b.txt\",\"--stages \"\"3:0.5\"\"\",,,1,4,100.0,0.75,0.25,1.0,0.125,0.0,0.25,8.0,4.0,16.0,10.0,5.0,20.0,0.0,3,0.5,0.25,0.5,2.0\n"
      "\"all\",\"--stages \"\"3:0.5\"\"\",,,2,4,100.0,0.75,0.25,1.0,0.125,0.0,0.25,8.0,4.0,16.0,10.0,5.0,20.0,1.0,,0.5,0.0,0.5,\n");
}

TEST_CASE("Markdown") {
  std::vector<fidelity_entry> entries = rated();
  entries[1].summary.perplexity.mean = 2e6;
  CHECK(to_markdown(entries) ==
        "| text     | greedy text   | prompt | steps |     agreement |        KL, nats | perplexity | dense |   rows | TTFT, ms | dense, "
        "ms | "
        "speedup |\n"
        "| -------- | ------------- | -----: | ----: | ------------: | --------------: | ---------: | ----: | -----: | -------: | "
        "--------: | "
        "------: |\n"
        "| a\\|b.txt | equal for 3   |    100 |     4 | 75.0 \xc2\xb1 37.5 % | 0.1250 \xc2\xb1 0.1250 |      10.00 |  8.00 | 50.0 % |    "
        "250.0 |    "
        " 500.0 |   2.00x |\n"
        "| all      | 100.0 % equal |    100 |     4 | 75.0 \xc2\xb1 37.5 % | 0.1250 \xc2\xb1 0.1250 |  above 1e6 |  8.00 | 50.0 % |      "
        "0.0 |    "
        " 500.0 |         |\n");
}

TEST_CASE("tables name the methods, and Markdown has one line for each method and budget, over all texts") {
  std::vector<fidelity_entry> entries;
  for (const double budget : {0.5, 0.9})
    for (fidelity_entry entry : rated()) {
      entry.method = "static@2";
      entry.budget = budget;
      entries.push_back(entry);
    }
  const std::string csv = to_csv(table_of(entries));
  CHECK(std::ranges::count(csv, '\n') == 5);
  CHECK(csv.find(",\"static@2\",0.9,1,4,100.0,") != csv.npos);
  CHECK(nlohmann::json::parse(to_json(table_of(entries)))[0]["budget"] == 0.5);
  const std::string table = to_markdown(entries);
  CHECK(table.starts_with("| method       | text | greedy text   |"));
  CHECK(table.find("\n| static@2 0.5 | all  | 100.0 % equal |") != table.npos);
  CHECK(table.find("\n| static@2 0.9 | all  | 100.0 % equal |") != table.npos);
  CHECK(table.find("a\\|b.txt") == table.npos);
  CHECK(to_markdown(std::vector{entries[0], entries[2]}).find("\n| static@2 0.9 | a\\|b.txt | equal for 3 |") != std::string::npos);
}
