// SPDX-License-Identifier: MIT
#include "program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using json = nlohmann::json;

namespace {

const std::string three_lines = R"({"pred": "\n\nred\nblue", "answers": ["Red"], "all_classes": null, "length": 3})"
                                "\n"
                                R"({"pred": "blue", "answers": ["red", "dark blue"], "all_classes": null, "length": 3})"
                                "\n"
                                R"({"pred": "", "answers": ["red"], "all_classes": null, "length": 3})"
                                "\n";

}  // namespace

TEST_CASE("predictions are scored by the task's metric, without a model") {
  const temporary_folder files;
  write_file(files / "triviaqa.jsonl", three_lines);
  const program_result result = lazyprune_program({"eval", "--predictions", files / "triviaqa.jsonl", "-o", "json"});
  CHECK_MESSAGE(result.code == 0, result.err);
  CHECK(result.err.empty());
  const json list = json::parse(result.out);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["task"] == "triviaqa");
  CHECK(list[0]["method"] == files / "triviaqa.jsonl");
  CHECK(list[0]["metric"] == "qa_f1");
  CHECK(list[0]["n"] == 3);
  CHECK(list[0]["score"].get<double>() == doctest::Approx(100 * (1 + 2.0 / 3 + 0) / 3).epsilon(1e-12));
  CHECK(list[0]["ci95"][0] == 0.0);
  CHECK(list[0]["ci95"][1] == 100.0);
  CHECK(list[0].size() == 6);
}

TEST_CASE("the task and the method by name, from stdin, as a table and as CSV") {
  const std::vector<std::string> arguments{"eval", "--predictions", "-", "--task", "qasper_e", "--method", "mine"};
  const program_result table = lazyprune_program(arguments, three_lines);
  CHECK(table.code == 0);
  CHECK(table.out.starts_with("| task   | method | metric |"));
  CHECK(table.out.find("| qasper | mine   | qa_f1  |   3 |") != std::string::npos);
  std::vector<std::string> more = arguments;
  more.insert(more.end(), {"-o", "csv"});
  const program_result csv = lazyprune_program(more, three_lines);
  CHECK(csv.code == 0);
  CHECK(csv.out.find("\n\"qasper\",\"mine\",\"qa_f1\",") != std::string::npos);
}

TEST_CASE("a bad line is told and left out, or ends the program") {
  const std::string text = three_lines + "{\"pred\": 7}\n" + three_lines;
  const std::string fault = "stdin: line 4: pred: expected a string, found 7";
  const program_result left = lazyprune_program({"eval", "--predictions", "-", "--task", "qasper", "-o", "json"}, text);
  CHECK(left.code == 0);
  CHECK(left.err == "left out: " + fault + "\n");
  CHECK(json::parse(left.out)[0]["n"] == 6);
  CHECK(complaint(lazyprune_program({"eval", "--predictions", "-", "--task", "qasper", "--strict"}, text)) == fault);
}

TEST_CASE("what makes no sense") {
  const temporary_folder files;
  write_file(files / "x.jsonl", "");
  CHECK(complaint(lazyprune_program({"eval"})) == "eval: expected --predictions FILE.jsonl, found none");
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "x.jsonl"})) ==
        "--task: expected the name of a LongBench, RULER or pocket task, found x");
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "x.jsonl", "--task", "vt"})) ==
        (files / "x.jsonl") + ": expected at least one prediction, found none");
  CHECK(complaint(lazyprune_program({"eval", "--predictions", files / "none.jsonl", "--task", "vt"})).starts_with(files / "none.jsonl"));
  CHECK(complaint(lazyprune_program({"eval", "--predictions", "-", "--task", "vt", "-o", "xml"})) ==
        "--output: expected md, json or csv, found xml");
}
