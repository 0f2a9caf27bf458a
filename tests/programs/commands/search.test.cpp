// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <test_data.hpp>

using json = nlohmann::json;

namespace {

/// Fields of a line of search.csv: stages (without quotes; they have commas), rows, score, holds, best_trade, held_out_score, loss.
std::vector<std::string> fields_of(const std::string& line) {
  const std::size_t quote = line.find('"', 1);
  std::vector<std::string> fields{line.substr(1, quote - 1)};
  for (std::size_t at = quote + 1; at < line.size();) {
    const std::size_t end = std::min(line.find(',', at + 1), line.size());
    fields.push_back(line.substr(at + 1, end - at - 1));
    at = end;
  }
  return fields;
}

}  // namespace

TEST_CASE("the search finds stages that answer as the dense model does, scores them on held-out samples, and can be interrupted") {
  const temporary_folder files;
  const std::string tries = in_full() ? "9" : "7";
  const auto run = [&](const std::string& out, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{
        "search", "-d", prompts("passage_retrieval"), "-d", prompts("few_shot"), "--limit", "5", "--tries", tries, "--out", files / out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments);
  };
  const program_result whole = run("whole");
  REQUIRE_MESSAGE(whole.code == 0, whole.err);
  const std::string csv = file_text(files / "whole/search.csv");
  const std::vector<std::string> lines = lines_of(csv);
  CHECK(lines.size() > 3);
  CHECK(lines.size() <= 1 + std::stoul(tries));
  CHECK(lines[0] == "stages,rows,score,holds,best_trade,held_out_score,loss");
  CHECK(fields_of(lines[1]) == std::vector<std::string>{"", "1", "100", "1", fields_of(lines[1])[4], "100", "0"});

  double least = 2;
  std::string best, held_out;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = fields_of(lines[i]);
    REQUIRE(fields.size() == 7);
    CHECK(std::stod(fields[6]) == doctest::Approx(100 - std::stod(fields[2])));
    CHECK((fields[3] == "1") == (std::stod(fields[2]) >= 99.0));
    if (fields[3] == "1" && std::stod(fields[1]) < least) least = std::stod(fields[1]), best = fields[0], held_out = fields[5];
  }
  CHECK(least < 1.0);
  CHECK_FALSE(held_out.empty());
  CHECK(whole.out.find("\n--stages " + best + "\n") != std::string::npos);
  CHECK(whole.out.find("\non the 6 samples of the search: score ") != std::string::npos);  // three of each task's five
  CHECK(whole.out.find("\non the 4 other samples: score ") != std::string::npos);

  const std::string predictions = file_text(files / "whole/search.jsonl");
  for (const std::size_t end : {std::size_t{0}, predictions.size() / 2, predictions.size()}) {
    if (end == 0 && !in_full()) continue;
    std::filesystem::create_directories(files / "cut");
    write_file(files / "cut/search.jsonl.unfinished", predictions.substr(0, end));
    // An empty file has nothing to lose, so a search may begin anew without --resume.
    if (end > 0) CHECK(complaint(run("cut")) == complaint_at(files / "cut/search.jsonl.unfinished", {"--resume"}));
    const program_result resumed = end > 0 ? run("cut", {"--resume"}) : run("cut");
    CHECK_MESSAGE(resumed.code == 0, resumed.err);
    CHECK(resumed.out == whole.out);
    CHECK(file_text(files / "cut/search.csv") == csv);
    std::filesystem::remove_all(files / "cut");
  }
  const program_result beside = run("beside", {"-j", "2", "-t", "2"});
  REQUIRE_MESSAGE(beside.code == 0, beside.err);
  CHECK(beside.out == whole.out);
  CHECK(file_text(files / "beside/search.csv") == csv);
  CHECK(file_text(files / "beside/search.jsonl").find("ttft_s") == std::string::npos);

  // --resume continues a search that --tries ended. It loses no answer, asks nothing twice, and has the result of an uninterrupted search.
  const auto more_tries = [&](const std::string& most) {
    return lazyprune_program({"search", "-d", prompts("passage_retrieval"), "-d", prompts("few_shot"), "--limit", "5", "--tries", most,
                              "--out", files / "few", "--resume"});
  };
  const program_result few = more_tries("3");
  REQUIRE_MESSAGE(few.code == 0, few.err);
  CHECK(lines_of(file_text(files / "few/search.csv")).size() == 1 + 3);
  const std::string begun = file_text(files / "few/search.jsonl");
  CHECK(more_tries(tries).out == whole.out);
  CHECK(file_text(files / "few/search.csv") == csv);
  CHECK(file_text(files / "few/search.jsonl").starts_with(begun));
  const std::string all = file_text(files / "few/search.jsonl");
  CHECK(more_tries("3").out == few.out);  // fewer tries than before: nothing is asked
  CHECK(file_text(files / "few/search.jsonl") == all);
  CHECK(complaint(run("whole", {"--resume", "--max-length", "300"})) == complaint_at(files / "whole/search.jsonl: prediction 1"));

  // --resume also continues a search that --minutes ended. The table of each run has the dense model and all schedules tried so far.
  const program_result none = run("timed", {"--minutes", "0.000001"});
  REQUIRE_MESSAGE(none.code == 0, none.err);
  CHECK(none.out.ends_with("ended by --minutes: --resume goes on, and may find better stages\n"));
  CHECK(lines_of(file_text(files / "timed/search.csv")).size() == 1 + 1);
  CHECK(complaint(run("timed")) == complaint_at(files / "timed/search.jsonl.unfinished", {"--resume"}));
  CHECK(run("timed", {"--resume"}).out == whole.out);
  CHECK(run("timed", {"--resume", "--minutes", "0.000001"}).out == whole.out);
  CHECK(file_text(files / "timed/search.csv") == csv);
}

TEST_CASE("each task has the same weight, whatever its number of samples") {
  const temporary_folder files;
  const std::string all = file_text(prompts("passage_retrieval"));
  std::string data;
  std::size_t end = 0;
  for (int i = 0; i < 5; ++i) end = all.find('\n', end) + 1;
  data = all.substr(0, end);
  for (const char* input : {"1", "2"})  // no answer to these is right
    data += R"({"dataset": "pocket_few_shot", "context": "word : red label : groupa .", "answers": ["-"], "input": ")" +
            std::string(input) + "\"}\n";
  const program_result result = lazyprune_program({"search", "-d", "-", "--tries", "1", "--out", files.path()}, data);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(lines_of(file_text(files / "search.csv"))[1] ==
        "\"\",1,50,1,1,50,0");  // score: 3 of 3 right in one task, 0 of 1 in the other; held_out_score: 2 of 2 and 0 of 1
  CHECK(
      result.out.ends_with("scores are means over 2 tasks, each of which weighs the same\n"
                           "ended by --tries: more tries, with --resume, may find better stages\n"));
}

TEST_CASE("a search reports prompts that do not fit, and refuses too few samples") {
  const temporary_folder files;
  const program_result result =
      lazyprune_program({"search", "-d", prompts("few_shot"), "--limit", "2", "--max-length", "200", "--tries", "3", "--out", files / "a"});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(result.err == "2 of 2 prompts were too long: their middle was left out\n");
  CHECK(complaint(lazyprune_program({"search", "-d", prompts("few_shot"), "--out", files / "c", "--limit", "1"})) ==
        complaint_at("search: pocket_few_shot", {"least 2", ", found 1"}));
}

TEST_CASE("the other parts of the policy are in the printed flags, and --resume needs the same parts") {
  using flags = std::vector<std::string>;
  struct {
    flags asked, otherwise;
    const char* printed;
  } const all[] = {
      {{"--keep-first", "4", "--keep-last", "8"}, {"--keep-first", "4", "--keep-last", "9"}, " --keep-first 4 --keep-last 8\n"},
      {{"--decode", "dense", "--selector", "blocks:size=8"},
       {"--decode", "dense", "--selector", "blocks:size=4"},
       " --selector blocks:size=8 --decode dense\n"},
  };
  for (const auto& each : all) {
    CAPTURE(each.printed);
    const temporary_folder files;
    const auto run = [&](flags more, bool resumed) {
      flags arguments{"search",  "-d", prompts("few_shot"), "--limit", "2",     "--max-length", "200",
                      "--tries", "3",  "--max-loss",        "100",     "--out", files / "out"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      if (resumed) arguments.emplace_back("--resume");
      return lazyprune_program(arguments);
    };
    const program_result result = run(each.asked, false);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    CHECK(result.out.find(each.printed) != std::string::npos);
    CHECK(run(each.asked, true).out == result.out);
    const complaint_line other = complaint(run(each.otherwise, true));
    CHECK(other.find("search.jsonl: prediction ") != std::string::npos);
    const std::size_t found = other.find(", found ");
    for (const std::string& text : {other.substr(0, found), other.substr(std::min(found, other.size()))})
      CHECK_MESSAGE(text.find(", not timed") != std::string::npos, other);  // this is no difference between the two
  }
}

TEST_CASE("with --certain, a schedule that loses one sample of three does not hold") {
  const temporary_folder files;
  const auto holding = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> arguments{"search", "-d",    prompts("few_shot"), "--limit",    "5", "--tries", "20", "-t",
                                       "1",      "--out", files / out,         "--max-loss", "40"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const program_result result = lazyprune_program(arguments);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const std::vector<std::string> lines = lines_of(file_text(files / (out + "/search.csv")));
    std::vector<std::pair<std::string, bool>> tried;  // score, holds
    for (std::size_t i = 1; i < lines.size(); ++i) tried.emplace_back(fields_of(lines[i])[2], fields_of(lines[i])[3] == "1");
    return tried;
  };
  const auto losing_one = [](const auto& tried) {
    return std::ranges::count_if(tried, [](const auto& t) { return t.first.starts_with("66.6"); });
  };
  const auto by_mean = holding("mean", {}), certain = holding("certain", {"--certain"});
  CHECK(losing_one(by_mean) > 0);
  CHECK(losing_one(certain) > 0);
  for (const auto& [score, holds] : by_mean) CHECK(holds == (std::stod(score) > 60));
  for (const auto& [score, holds] : certain) CHECK(holds == (score == "100"));
}

TEST_CASE("flags that do not suit a search are refused") {
  const temporary_folder files;
  const auto fault = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"search", "-d", prompts("few_shot")});
    return complaint(lazyprune_program(more));
  };
  CHECK(fault({}) == complaint_at("search", {"--out"}));
  for (const auto& [flag, value] :
       {std::pair{"--methods", "lazyllm"}, {"--variant", "x=--store none"}, {"--budgets", "0.5"}, {"--seeds", "2"}, {"--sensitivity", "3"}})
    CHECK(fault({"--out", files.path(), flag, value}) ==
          complaint_at("arguments", {"`lazyprune search --help-all`", ", found " + std::string(flag)}));
  for (const std::vector<std::string>& flag : std::vector<std::vector<std::string>>{{"--max-loss", "2"},
                                                                                    {"--tries", "3"},
                                                                                    {"--jobs", "2"},
                                                                                    {"--most-stages", "2"},
                                                                                    {"--scorer", "recency"},
                                                                                    {"--selector", "top_k"},
                                                                                    {"--store", "none"},
                                                                                    {"--decode", "dense"},
                                                                                    {"--certain"}}) {
    std::vector<std::string> sweep{"sweep", "-d", prompts("few_shot"), "--out", files.path()};
    sweep.insert(sweep.end(), flag.begin(), flag.end());
    CHECK(complaint(lazyprune_program(sweep)) == complaint_at("arguments", {"`lazyprune sweep --help-all`", ", found " + flag.front()}));
  }
  CHECK(fault({"--out", files / "parts", "--decode", "only"}) == complaint_at("--decode", {"same, kept or dense", ", found only"}));
  CHECK(fault({"--out", files / "parts", "--selector", "nonsense"}) == complaint_at("--selector"));
  CHECK_FALSE(std::filesystem::exists(files / "parts"));  // the error comes before any question is asked
  CHECK(fault({"--out", files.path(), "--max-loss", "-1"}) == complaint_at("--max-loss", {"100", ", found -1"}));
}

TEST_CASE("a search on texts scores agreement with the dense model, under the probes of a calibration") {
  const temporary_folder files;
  std::string text;
  for (std::size_t i = 0; i < 120; ++i) text += "The lamp of house " + std::to_string(7 * i) + " is near tree " + std::to_string(i) + ". ";
  write_file(files / "text.txt", text);
  const auto program = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-f", files / "text.txt", "--tokens", "300", "--prompts", "12"});
    return lazyprune_program(arguments);
  };
  REQUIRE(program({"calibrate", "--out", files / "a.json"}).code == 0);
  const auto search = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), {"search", "--tries", "6", "--max-loss", "60", "--out", files / out});
    return program(more);
  };
  const program_result found = search("found", {"--pruning-file", files / "a.json"});
  REQUIRE_MESSAGE(found.code == 0, found.err);
  const std::vector<std::string> lines = lines_of(file_text(files / "found/search.csv"));
  CHECK(fields_of(lines[1]) == std::vector<std::string>{"", "1", "100", "1", fields_of(lines[1])[4], "100", "0"});
  CHECK(found.out.find(", with the probes in " + (files / "found/lazyprune.json")) != std::string::npos);
  json made = json::parse(file_text(files / "found/lazyprune.json")), calibrated = json::parse(file_text(files / "a.json"));
  CHECK(found.out.find("\nstages " + made["stages"].get<std::string>() + ", with") != std::string::npos);
  CHECK(made["stages"] != "");
  made.erase("stages");
  calibrated.erase("stages");
  CHECK(made == calibrated);
  const std::string asked = json::parse(lines_of(file_text(files / "found/search.jsonl")).back())["run"]["asked"];
  CHECK_MESSAGE(asked.find("--scorer calibrated_attention:") != std::string::npos, asked);
  CHECK_MESSAGE(asked.find("--decode kept") != std::string::npos, asked);

  const program_result dense = program({"search", "--tries", "1", "--out", files / "found", "--pruning-file", files / "a.json"});
  REQUIRE_MESSAGE(dense.code == 0, dense.err);
  CHECK(dense.out.find("\n--policy dense\n") != std::string::npos);
  CHECK(json::parse(file_text(files / "found/lazyprune.json"))["stages"] == "");  // no stages of the earlier search stay
  CHECK(lazyprune_program({"run", "-p", "the", "-n", "1", "--pruning-file", files / "found/lazyprune.json"}).code == 0);

  const program_result plain = search("plain", {"--scorer", "recency"});
  REQUIRE_MESSAGE(plain.code == 0, plain.err);
  CHECK(plain.out.find("--scorer recency") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(files / "plain/lazyprune.json"));
}
