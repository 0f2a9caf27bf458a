// SPDX-License-Identifier: MIT
#include "questions/run_record.hpp"

#include <doctest/doctest.h>

#include "commands/flags.hpp"
#include "questions/results.hpp"

#include <lazyprune/eval/task.hpp>

#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune::program;
using namespace lazyprune_test;

namespace {

/// Two samples. The first is also asked under a single stage.
run_record small_record() {
  return {.command = "sweep",
          .model = "models/m",
          .name = "m",
          .fingerprint = "f",
          .layers = 6,
          .part = {2, 3},
          .settings = {{.method = "dense", .policy = "--policy dense"},
                       {.method = "random", .budget = 0.1, .policy = "drawn", .repeats = 2},
                       {.method = "single_stage@2", .budget = 0.9, .policy = "single", .single = stage{2, 0.7}}},
          .samples = {{"qasper", "a.jsonl", 1, "first", " -n 3", 7, {1, 2, 3, 4}}, {"lcc", "b.jsonl", 1, "", " -n 4", ~0ull, {5, 6, 7}}}};
}

}  // namespace

TEST_CASE("a record reads back as it was written") {
  const temporary_folder folder;
  write_whole((folder / "run.json").string(), json_of(small_record()));
  CHECK(read_run_record(folder.path().string()) == small_record());
  const auto fault = [&](const std::string& from, const std::string& to) {
    std::string text = json_of(small_record());
    text.replace(text.find(from), from.size(), to);
    write_whole((folder / "run.json").string(), text);
    return error_of([&] { read_run_record(folder.path().string()); });
  };
  const std::string file = (folder / "run.json").string();
  CHECK(fault("\"version\": 1", "\"version\": 2") == at(file + ": version"));
  CHECK(fault("2/3", "4/3") == at(file + ": part", {"K/N"}));
  CHECK(fault("    \"7\"\n", "    \"7\", \"8\", \"9\"\n") == at(file + ": samples[1].asks", {"3 hashes"}));
  CHECK(fault("\"digest\": \"7\"", "\"digest\": \"x\"") == at(file + ": samples[0].digest"));
  CHECK(fault("\"sweep\"", "\"run\"") == at(file + ": command", {"eval, sweep or fidelity"}));
  CHECK(fault("\"sweep\"", "\"eval\"") == at(file + ": settings[1]", {"eval"}));
  CHECK(fault("\"after\": 2", "\"after\": 6") == at(file + ": settings[2].single.after"));
  CHECK(fault("\"share\": 0.7", "\"share\": 0") == at(file + ": settings[2].single.share"));
  run_record order = small_record();
  std::swap(order.settings[1], order.settings[2]);
  CHECK(error_of([&] { parse_run_record(json_of(order), "f"); }) == at("f: settings[2]", {"after the others"}));
  order.settings.clear();
  order.samples.clear();
  CHECK(error_of([&] { parse_run_record(json_of(order), "f"); }) == at("f: settings", {"at least one"}));
  std::filesystem::remove(folder / "run.json");
  CHECK(error_of([&] { read_run_record(folder.path().string()); }) == at(file));
}

TEST_CASE("asks: each sample begins with another setting, and single stages come last") {
  const run_record record = small_record();
  CHECK(record.asks_of_all() == 3);
  CHECK(record.first_ask(2) == 3);
  CHECK(record.tasks() == std::vector<std::string>{"qasper", "lcc"});
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (const auto& [sample, ask] : record.in_order()) order.emplace_back(sample, ask);
  CHECK(order == std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 0}});
}

TEST_CASE("records of one run may differ in the part alone; the error names the first difference") {
  const run_record first = small_record();
  const auto fault = [&](auto change) {
    run_record other = first;
    change(other);
    return error_of([&] { check_same_run(other, "b", first, "a"); });
  };
  run_record part = first;
  part.part = {1, 5};
  part.samples[0].file = "elsewhere/a.jsonl";
  check_same_run(part, "b", first, "a");
  CHECK(fault([](run_record& r) { r.command = "eval"; }) == at("b/run.json: command", {"\"sweep\" as in a", "\"eval\""}));
  CHECK(fault([](run_record& r) { r.model = "n"; }) == at("b/run.json: model", {"models/m", "\"n\""}));
  CHECK(fault([](run_record& r) { r.fingerprint = "g"; }) == at("b/run.json: fingerprint"));
  CHECK(fault([](run_record& r) { r.settings[1].budget = 0.2; }) == at("b/run.json: setting 2", {"0.1", "0.2"}));
  CHECK(fault([](run_record& r) { r.settings.pop_back(); }) == at("b/run.json: the number of settings"));
  CHECK(fault([](run_record& r) { r.samples[1].number = 2; }) ==
        at("b/run.json: sample 2", {"number 1 of task lcc", "number 2 of task lcc"}));
  CHECK(fault([](run_record& r) { r.samples[0].asked = " -n 5"; }) == at("b/run.json: sample 1 of a.jsonl (first)", {"-n 3", "-n 5"}));
  CHECK(fault([](run_record& r) { r.samples[0].digest = 8; }) == at("b/run.json: sample 1 of a.jsonl (first): its hash"));
  CHECK(fault([](run_record& r) { r.samples[0].asks[2] = 8; }) == at("b/run.json: sample 1 of a.jsonl (first): ask 3"));
  CHECK(fault([](run_record& r) { r.samples.pop_back(); }) == at("b/run.json: the number of samples"));
}

TEST_CASE("a recorded task is a known one or one of the questions about texts") {
  CHECK(recorded_task("qasper").name == "qasper");
  CHECK(recorded_task("made_up_fact").name == "made_up_fact");
  CHECK(error_of([] { recorded_task("none"); }) == at("run.json: task", {", found none"}));
}
