// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <csignal>
#include <map>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/without_times.hpp"

using json = nlohmann::json;
using lazyprune_test::csv_table, lazyprune_test::rows_without_times;
using row = lazyprune_test::csv_row;

namespace {

/// Runs a sweep. To save time, the prompts lose their middle, so the scores mean nothing.
program_result sweep(const std::string& directory, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{
      "sweep", "-d", prompts("profile"), "-d", prompts("few_shot"), "-t", "1", "--limit", "2", "--max-length", "300", "--out", directory};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return lazyprune_program(arguments);
}

const std::vector<std::string> small{"--methods", "lazyllm@3+5,random,compression", "--budgets", "0.75", "--seeds", "2", "--sensitivity",
                                     "1"};

}  // namespace

TEST_CASE("samples that are not timed get the same answers, although the methods share computed prefixes") {
  const temporary_folder files;
  const std::vector<std::string> methods{
      "--methods", "lazyllm@3+5,no_revival@3,static@2,random,fastkv@3,snapkv,h2o", "--budgets", "0.75,0.9", "--seeds", "1"};
  std::vector<std::string> shared = methods;
  shared.insert(shared.end(), {"--timed", "1"});
  REQUIRE(sweep(files / "whole", methods).code == 0);
  REQUIRE(sweep(files / "shared", shared).code == 0);
  const std::vector<std::string> whole = lines_of(file_text(files / "whole/predictions.jsonl")),
                                 some = lines_of(file_text(files / "shared/predictions.jsonl"));
  REQUIRE(some.size() == whole.size());
  std::size_t timed = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const json all = json::parse(whole[i]), one = json::parse(some[i]);
    CHECK(one["pred"] == all["pred"]);
    for (const char* same : {"method", "per_layer", "share_computed", "revived", "usage", "generated_tokens"}) {
      CAPTURE(same);
      CHECK(one["run"].at(same) == all["run"].at(same));
    }
    timed += one["run"].contains("ttft_s");
    CHECK(all["run"].contains("ttft_s"));
  }
  CHECK(timed == whole.size() / 2);
  for (const row& entry : csv_table(files / "shared/sweep.csv")) {
    CHECK(entry.at("ttft_s") != "");
    CHECK(entry.at("n") == "2");
    CHECK(entry.at("timed") == "1");
  }
  for (const row& entry : csv_table(files / "whole/sweep.csv")) CHECK(entry.at("timed") == "2");
  CHECK(file_text(files / "shared/report.html").find("<dt>times</dt><dd>over 2 of 4 samples</dd>") != std::string::npos);
}

TEST_CASE("methods at budgets: a table, a page, and predictions with their flags") {
  const temporary_folder files;
  const std::string directory = files / "new/folder";
  const program_result result = sweep(directory, small);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(result.out.starts_with("| task "));
  CHECK(result.out.find(" lazyllm@3+5 0.75 ") != std::string::npos);
  CHECK(result.err == "4 of 4 prompts were too long: their middle was left out\n");
  CHECK(file_text(directory + "/report.html").starts_with("<!DOCTYPE html>"));
  CHECK(file_text(directory + "/report.html").find("<title>Token pruning on pocket: accuracy and speed</title>") != std::string::npos);

  const std::vector<row> rows = csv_table(directory + "/sweep.csv");
  // Each of two tasks has rows for dense, 3 methods, dense beside the single stages, and 5 shares after each of 5 layers.
  REQUIRE(rows.size() == 2 * (1 + 3 + 1 + 5 * 5));
  const std::vector<std::string> methods{"dense", "lazyllm@3+5", "random", "compression"};
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(rows[i].at("method") == methods[i / 2]);
    CHECK(rows[i].at("task") == (i % 2 == 0 ? "pocket_profile" : "pocket_few_shot"));
    CHECK(rows[i].at("budget") == (i < 2 ? "" : "0.75"));
    CHECK(rows[i].at("n") == "2");
    const double share = std::stod(rows[i].at("share_computed")), total = std::stod(rows[i].at("total_s"));
    CHECK((i < 2 ? share == 1 : share > 0.74));
    CHECK(total > std::stod(rows[i].at("ttft_s")));
    if (i < 2)
      CHECK(rows[i].at("lost").empty());
    else
      CHECK(std::stod(rows[i].at("lost")) == doctest::Approx(std::stod(rows[i % 2].at("score")) - std::stod(rows[i].at("score"))));
    CHECK(std::stod(rows[i].at("speedup_ttft")) ==
          doctest::Approx(std::stod(rows[i % 2].at("ttft_s")) / std::stod(rows[i].at("ttft_s"))).epsilon(1e-9));
    CHECK(std::stod(rows[i].at("speedup_total")) == doctest::Approx(std::stod(rows[i % 2].at("total_s")) / total).epsilon(1e-9));
  }
  CHECK(rows[2].at("policy").starts_with("--stages 3:0.5811,5:0.5811 "));  // 3 + 2 s + s^2 = 0.75 * 6
  CHECK(rows[4].at("policy").ends_with(" --decode dense (seeds 0 to 1 of the first sample, then the next ones)"));
  CHECK(std::stod(rows[4].at("share_computed")) == doctest::Approx(0.75).epsilon(1.0 / 300));
  CHECK(rows[6].at("policy") == "the context compressed to leave 0.75 of the prompt, --policy dense");
  for (const std::size_t i : {8u, 9u}) {
    CHECK(rows[i].at("method") == "dense (single stages)");
    CHECK(rows[i].at("policy") == "--policy dense");
    CHECK(rows[i].at("budget").empty());
    CHECK(rows[i].at("n") == "1");
    CHECK(rows[i].at("share_computed") == "1.0");
  }
  CHECK(rows[10].at("method") == "single_stage@1");
  CHECK(rows[10].at("policy").starts_with("--stages 1:0.9 "));
  CHECK(rows[10].at("n") == "1");
  CHECK(rows.back().at("policy").starts_with("--stages 5:0.1 "));

  // 5 runs per sample, and 25 single stages on the first sample of each file. Each sample begins with another setting.
  const std::vector<std::string> lines = lines_of(file_text(directory + "/predictions.jsonl"));
  REQUIRE(lines.size() == 4 * 5 + 2 * 25);
  const auto made_by = [&](std::size_t i) { return json::parse(lines[i])["run"]["method"].get<std::string>(); };
  CHECK(made_by(0) == "dense: --policy dense");
  CHECK(made_by(1).starts_with("lazyllm@3+5 0.75: --stages 3:0.5811,5:0.5811 "));
  CHECK(made_by(2).starts_with("random 0.75: --stages 0:0.75 --scorer random:seed=0 "));
  CHECK(made_by(3).starts_with("random 0.75: --stages 0:0.75 --scorer random:seed=1 "));
  // In every sample the methods are named by seeds 0 and 1, but each sample draws with seeds of its own: 0 and 1 in the first sample of
  // the first file, 2 and 3 in its second sample, 4 and 5 in the first sample of the other file. The files take turns: after the first
  // sample (5 + 25 lines) comes the first sample of the other file.
  std::vector<std::string> drawn;
  for (std::size_t i = 0; i < 35; ++i) {
    const json run = json::parse(lines[i])["run"];
    const std::string asked = run["asked"], key = " --scorer random:seed=";
    if (const std::size_t at = asked.find(key); at != asked.npos) {
      const bool first = run["method"].get<std::string>().find(key + "0 ") != std::string::npos;
      drawn.push_back((first ? "0: " : "1: ") + asked.substr(at + key.size(), asked.find(' ', at + key.size()) - at - key.size()));
    }
  }
  std::ranges::sort(drawn);  // their order differs: each sample begins with another setting
  CHECK(drawn == std::vector<std::string>{"0: 0", "0: 4", "1: 1", "1: 5"});
  CHECK(made_by(5).starts_with("single_stage@1 0.91"));
  CHECK(made_by(30).starts_with("random 0.75: --stages 0:0.75 --scorer random:seed=0 "));  // the third sample: two settings later

  // `eval` with the same policy gives the same answers, and computes the same rows in the same steps.
  const program_result alone = lazyprune_program({"eval", "-d", prompts("profile"), "--limit", "1", "--max-length", "300", "--stages",
                                                  "3:0.5811,5:0.5811", "--out", files / "alone", "-o", "json"});
  CHECK_MESSAGE(alone.code == 0, alone.err);
  json one = json::parse(file_text(files / "alone")), other = json::parse(lines[1]);
  const json& usage = one["run"]["usage"];
  REQUIRE(usage.size() == 11);
  const std::uint64_t tokens = one["run"]["prompt_tokens"];
  CHECK(usage[0] == one["run"]["per_layer"]);
  std::uint64_t computed = 0;
  for (const json& layer : usage[10]) computed += layer.get<std::uint64_t>();
  CHECK(one["run"]["share_computed"].get<double>() == doctest::Approx(double(computed) / double(6 * tokens)).epsilon(1e-12));
  for (std::size_t tenth = 1; tenth <= 10; ++tenth)
    for (std::size_t l = 0; l < 6; ++l) CHECK(usage[tenth][l] >= usage[tenth - 1][l]);
  // The peaks differ, because `sweep` runs on one thread here and `eval` on more, and each thread has its own scratch.
  for (json* line : {&one, &other})
    for (const char* key : {"ttft_s", "total_s", "timed_on", "method", "peak_bytes"}) (*line)["run"].erase(key);
  CHECK(one == other);
}

TEST_CASE("a sweep without a figure removes the figure of an earlier sweep") {
  const temporary_folder files;
  REQUIRE(sweep(files / "out", {"--methods", "lazyllm@3", "--budgets", "0.75"}).code == 0);
  CHECK(std::filesystem::exists(files / "out/accuracy.svg"));
  REQUIRE(sweep(files / "out", {"--methods", "dense"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(files / "out/accuracy.svg"));
  CHECK(std::filesystem::exists(files / "out/report.html"));
}

TEST_CASE("given scores, variants, and tokens that every method keeps") {
  const temporary_folder files;
  const std::string directory = files / "out";
  const std::vector<std::string> flags{"--methods",    "given@2,random,compression",
                                       "--variant",    "summed@3=--scorer accumulated_attention:since=step",
                                       "--variant",    "blocks@3=--selector blocks:size=8",
                                       "--budgets",    "0.75",
                                       "--seeds",      "1",
                                       "--keep-first", "4",
                                       "--keep-last",  "16"};
  const program_result result = sweep(directory, flags);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const std::vector<row> rows = csv_table(directory + "/sweep.csv");
  const std::vector<std::string> methods{"dense", "given@2", "random", "compression", "summed@3", "blocks@3"};
  REQUIRE(rows.size() == 2 * methods.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    CHECK(rows[i].at("method") == methods[i / 2]);
    const std::string& policy = rows[i].at("policy");
    if (methods[i / 2] == "dense")
      CHECK(policy == "--policy dense");
    else if (methods[i / 2] == "compression")
      CHECK(policy == "the context compressed to leave 0.75 of the prompt, but none of its first 4 and last 16 tokens, --policy dense");
    else
      CHECK(policy.find(" --keep-first 4 --keep-last 16 ") != policy.npos);
  }
  CHECK(
      rows[2].at("policy").starts_with("scores given by 2 layers that look at the prompt first, --stages 0:0.4167 --scorer given_scores "));
  CHECK(rows[8].at("policy").starts_with("--stages 3:0.5 --scorer accumulated_attention:over=sum,since=step "));
  CHECK(rows[10].at("policy").find(" --selector blocks:size=8 ") != std::string::npos);
  for (const std::size_t i : {2u, 3u}) CHECK(std::stod(rows[i].at("share_computed")) == doctest::Approx(0.75).epsilon(1.0 / 200));

  // The rows of given@2 include the look. In the look two layers compute the whole prompt and give the scores. All layers then compute the
  // tokens that these scores keep.
  for (const std::string& line : lines_of(file_text(directory + "/predictions.jsonl"))) {
    const json run = json::parse(line)["run"];
    if (!run["method"].get<std::string>().starts_with("given@2")) continue;
    const std::uint64_t tokens = run["prompt_tokens"], left = run["per_layer"][5];
    CHECK(left == doctest::Approx(0.4167 * double(tokens)).epsilon(1.0 / 100));
    for (std::size_t l = 0; l < 6; ++l) CHECK(run["per_layer"][l] == (l < 2 ? tokens + left : left));
  }

  std::vector<std::string> other = flags;
  other.back() = "17";
  other.emplace_back("--resume");
  CHECK(complaint(sweep(directory, other)) == complaint_at(directory + "/predictions.jsonl: prediction 2"));
  other.back() = "--variant";
  other.emplace_back("summed@3=--store none");
  CHECK(complaint(sweep(files / "x", other)) == complaint_at("--variant: summed@3"));
  CHECK(complaint(sweep(files / "x", {"--variant", "x@3=--scorer lazy"})) == complaint_at("--scorer", {"last_query_attention, "}));
  CHECK_FALSE(std::filesystem::exists(files / "x"));
}

TEST_CASE("--pruning-file adds the method `calibrated`; in a variant it takes the stages and probes from its file") {
  const temporary_folder files;
  write_file(files / "stages.json", R"({"stages": "4:0.2"})");
  const std::vector<std::string> few{"-n", "1", "--methods", "dense", "--budgets", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), few.begin(), few.end());
    return more;
  };
  REQUIRE(sweep(files / "a", with({"--pruning-file", bundled_calibration, "--variant",
                                   "other=--stages 3:0.2 --keep-first 7 --pruning-file " + bundled_calibration, "--variant",
                                   "plain=--pruning-file " + (files / "stages.json")}))
              .code == 0);
  std::map<std::string, std::string> policies;
  for (const row& r : csv_table(files / "a/sweep.csv")) policies[r.at("method")] = r.at("policy");
  REQUIRE(policies.size() == 4);
  const std::string stages = json::parse(file_text(bundled_calibration)).at("stages");
  const std::string probes = " --scorer calibrated_attention:window=64,block=16,probes=";
  CHECK(policies.at("calibrated").starts_with("--stages " + stages + probes));
  CHECK(policies.at("calibrated")
            .ends_with(" --selector blocks:size=16 --store keep_all --keep-first 4 --keep-last 96 --least-tokens 768 --decode kept"));
  CHECK(policies.at("other").starts_with("--stages 3:0.2" + probes));
  CHECK(policies.at("other").find(" --keep-first 7 ") != std::string::npos);
  CHECK(policies.at("plain").starts_with("--stages 4:0.2 --scorer last_query_attention:over=mean "));

  const auto fault = [&](const std::string& variant) { return complaint(sweep(files / "b", with({"--variant", variant}))); };
  CHECK(fault("x=--pruning-file") == complaint_at("--variant: x=--pruning-file", {"a file"}));
  CHECK(fault("x=--pruning-file --stages 3:0.5") == complaint_at("--variant: x=--pruning-file --stages 3:0.5", {"a file", "--stages"}));
  CHECK(fault("x@3=--pruning-file " + bundled_calibration) ==
        complaint_at("--variant: x@3=--pruning-file " + bundled_calibration, {"@LAYER"}));
  CHECK(fault("--pruning-file " + bundled_calibration) == complaint_at("--variant: --pruning-file " + bundled_calibration, {"NAME=FLAGS"}));
  CHECK(fault("x=--pruning-file " + (files / "none.json")) == complaint_at("--variant x: " + (files / "none.json")));
}

TEST_CASE("a sweep of texts asks for made-up facts and for quotes") {
  const temporary_folder files;
  std::string text;
  for (std::size_t i = 0; i < 120; ++i) text += "The lamp of house " + std::to_string(7 * i) + " is near tree " + std::to_string(i) + ". ";
  write_file(files / "text.txt", text);
  const program_result result = lazyprune_program({"sweep", "-f", files / "text.txt", "--tokens", "300", "--prompts", "8", "--methods",
                                                   "dense", "--budgets", "1", "-t", "1", "--out", files / "out"});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  std::map<std::string, std::string> asked;
  for (const row& entry : csv_table(files / "out/sweep.csv")) asked[entry.at("task")] = entry.at("n");
  CHECK(asked == std::map<std::string, std::string>{{"made_up_fact", "4"}, {"repeated_quote", "4"}});
  CHECK(complaint(lazyprune_program({"sweep", "-f", files / "text.txt", "-d", prompts("few_shot"), "--out", files / "x"})) ==
        complaint_at("sweep", {"both"}));
}

TEST_CASE("an interrupted sweep goes on without losing or repeating a prediction") {
  const temporary_folder files;
  const std::string whole = files / "whole";
  REQUIRE(sweep(whole, small).code == 0);
  const std::string predictions = file_text(whole + "/predictions.jsonl");
  const std::vector<row> expected = rows_without_times(whole + "/sweep.csv");

  std::vector<std::string> resumed = small;
  resumed.emplace_back("--resume");
  const std::string cut = files / "cut";
  for (const std::size_t end : {std::size_t{0}, predictions.find('\n') + 1, predictions.size() / 2, predictions.size()}) {
    std::filesystem::create_directory(cut);
    write_file(cut + "/predictions.jsonl.unfinished", predictions.substr(0, end));
    const program_result result = sweep(cut, resumed);
    CHECK_MESSAGE(result.code == 0, result.err);
    CHECK(rows_without_times(cut + "/sweep.csv") == expected);
    CHECK(lines_of(file_text(cut + "/predictions.jsonl")).size() == lines_of(predictions).size());
    const std::size_t kept = end == 0 ? 0 : predictions.rfind('\n', end - 1) + 1;
    CHECK(file_text(cut + "/predictions.jsonl").substr(0, kept) == predictions.substr(0, kept));  // the times are the same, too
    std::filesystem::remove_all(cut);
  }
  CHECK(file_text(whole + "/sweep.csv").size() > 0);
  const std::string csv = file_text(whole + "/sweep.csv");
  CHECK(sweep(whole, resumed).code == 0);  // a finished sweep keeps its predictions and its table, times included
  CHECK(file_text(whole + "/sweep.csv") == csv);

  CHECK(complaint(sweep(whole, {"--methods", "static@3", "--budgets", "0.75", "--resume"})) ==
        complaint_at(whole + "/predictions.jsonl", {" 8 ", ", found 70"}));
  resumed[1] = "lazyllm@4+5,random,compression";
  CHECK(complaint(sweep(whole, resumed)) == complaint_at(whole + "/predictions.jsonl: prediction 2", {"lazyllm@4+5 0.75: --stages 4:0."}));
}

TEST_CASE("after --minutes no sample is begun: the files take turns with complete samples, and a later sweep goes on") {
  const std::vector<std::string> shared{"--methods", "lazyllm@3+5,random", "--budgets", "0.75", "--seeds", "2"};
  const std::vector<std::string> timed{"--methods", "random", "--budgets", "0.75", "--seeds", "2", "--timed", "1", "--sensitivity", "1"};
  for (const std::vector<std::string>& methods : {shared, timed}) {
    const temporary_folder files;
    const std::string whole = files / "whole", part = files / "part";
    REQUIRE(sweep(whole, methods).code == 0);
    std::vector<std::string> limited = methods;
    limited.insert(limited.end(), {"--resume", "--minutes", "0.000001"});
    for (const std::size_t samples : {1u, 2u, 3u, 4u}) {
      CAPTURE(samples);
      const program_result result = sweep(part, limited);
      REQUIRE_MESSAGE(result.code == 0, result.err);
      const std::string told = "--minutes were over after " + std::to_string(samples) + " of 4 samples; --resume continues\n";
      CHECK((result.err.find(told) != std::string::npos) == (samples < 4));
      CHECK(std::filesystem::exists(part + "/predictions.jsonl") == (samples == 4));
      std::map<std::string, std::map<std::string, int>> answered;  // numbers of answers by task and method
      for (const row& entry : csv_table(part + "/sweep.csv")) answered[entry.at("task")][entry.at("method")] = std::stoi(entry.at("n"));
      CHECK(answered.size() == std::min<std::size_t>(samples, 2));
      for (const auto& [task, of] : answered)
        for (const char* method : {"dense", "random"})
          CHECK(of.at(method) == static_cast<int>(task == "pocket_profile" ? (samples + 1) / 2 : samples / 2));
    }
    CHECK(rows_without_times(part + "/sweep.csv") == rows_without_times(whole + "/sweep.csv"));
  }
}

TEST_CASE("a resumed sweep takes predictions in any order, and a sample without all of its answers is not in the table") {
  const temporary_folder files;
  const std::string whole = files / "whole", part = files / "part";
  const std::vector<std::string> methods{"--methods", "lazyllm@3+5", "--budgets", "0.75"};
  REQUIRE(sweep(whole, methods).code == 0);
  std::vector<std::string> lines = lines_of(file_text(whole + "/predictions.jsonl"));
  REQUIRE(lines.size() == 8);
  const auto resumed = [&](std::vector<std::string> more) {
    more.insert(more.begin(), methods.begin(), methods.end());
    more.emplace_back("--resume");
    return sweep(part, more);
  };
  // In each file, the two settings take turns to come first.
  std::map<std::string, int> begun;
  for (std::size_t i = 0; i < 8; i += 2) ++begun[json::parse(lines[i])["run"]["method"].get<std::string>()];
  for (const auto& [method, times] : begun) CHECK(times == 2);
  CHECK(json::parse(lines[0])["run"]["method"] != json::parse(lines[4])["run"]["method"]);  // the first file
  CHECK(json::parse(lines[2])["run"]["method"] != json::parse(lines[6])["run"]["method"]);  // the second file

  std::ranges::reverse(lines);
  lines.resize(3);  // both predictions of the last sample, and one of the sample before
  std::filesystem::create_directory(part);
  write_file(part + "/predictions.jsonl.unfinished", lines[0] + '\n' + lines[1] + '\n' + lines[2] + '\n');
  const program_result limited = resumed({"--minutes", "0.000001"});  // answers only the first sample
  REQUIRE_MESSAGE(limited.code == 0, limited.err);
  CHECK(limited.err.find("2 of 4 samples; ") != std::string::npos);
  for (const row& entry : csv_table(part + "/sweep.csv")) CHECK(entry.at("n") == "1");
  CHECK(resumed({}).code == 0);
  CHECK(rows_without_times(part + "/sweep.csv") == rows_without_times(whole + "/sweep.csv"));
  CHECK(lines_of(file_text(part + "/predictions.jsonl")).size() == 8);

  write_file(part + "/predictions.jsonl", lines[0] + '\n' + lines[0] + '\n');
  CHECK(complaint(resumed({})) == complaint_at(part + "/predictions.jsonl: prediction 2"));
}

TEST_CASE("a sweep that is killed at any moment can go on") {
  const temporary_folder files;
  const std::string out = files / "out";
  const std::vector<std::string> arguments{"sweep",   "-d",        prompts("few_shot"), "--limit", "4", "--methods",
                                           "lazyllm", "--budgets", "0.6,0.8",           "--out",   out, "-t",
                                           "1",       "--resume"};
  int killed = 0;
  for (int tries = 0; tries < 50 && !std::filesystem::exists(out + "/report.html"); ++tries) {
    running_program program(arguments);
    const auto lines = [&] { return std::ranges::count(file_text(out + "/predictions.jsonl.unfinished"), '\n'); };
    const auto before = lines();
    program.until([&] { return std::filesystem::exists(out + "/report.html") || lines() >= before + 2; });
    program.send(SIGKILL);
    if (program.wait().code == 128 + SIGKILL) ++killed;
  }
  CHECK(killed > 2);
  std::vector<std::string> once = arguments;
  once.pop_back();
  *std::ranges::find(once, out) = files / "whole";
  CHECK(lazyprune_program(once).code == 0);
  CHECK(rows_without_times(out + "/sweep.csv") == rows_without_times(files / "whole/sweep.csv"));
}

TEST_CASE("wrong combinations of flags are refused") {
  const temporary_folder files;
  CHECK(complaint(lazyprune_program({"sweep", "--out", files / "x"})) == complaint_at("sweep", {"-d"}));
  CHECK(complaint(lazyprune_program({"sweep", "-d", prompts("few_shot")})) == complaint_at("sweep", {"--out"}));
  CHECK(complaint(sweep(files / "x", {"--methods", "lazy"})) == complaint_at("--methods", {"dense, lazyllm"}));
  CHECK(complaint(sweep(files / "x", {"--methods", ""})) == complaint_at("--methods"));
  CHECK(complaint(sweep(files / "x", {"--methods", "lazyllm", "--budgets", "0.5"})) ==
        complaint_at("--budgets: lazyllm@3+5", {"0.5", ", found 0.5"}));
  CHECK(complaint(sweep(files / "x", {"--budgets", "1.5"})) == complaint_at("--budgets", {", found 1.5"}));
  CHECK(complaint(sweep(files / "x", {"--budgets", "0"})) == complaint_at("--budgets: lazyllm@3+5", {", found 0"}));
  CHECK(complaint(sweep(files / "x", {"--seeds", "0"})) == complaint_at("--seeds"));
  CHECK_FALSE(std::filesystem::exists(files / "x"));
  write_file(files / "file", "");
  CHECK(complaint(sweep(files / "file")) == complaint_at((files / "file")));
}
