// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using json = nlohmann::json;

namespace {

/// A text in which no two sentences are alike.
std::string some_text() {
  const std::vector<std::string> things{"lamp", "river", "garden", "letter", "window", "bridge", "castle", "market", "orchard", "signal"};
  std::string text;
  for (std::size_t i = 0; i < 200; ++i)
    text += "The " + things[i % 10] + " near the " + things[(i / 10 + 3) % 10] + " has number " + std::to_string(1000 + 37 * i) + ". ";
  return text;
}

}  // namespace

TEST_CASE("a calibration from a text is written to a file, and prunes the model that it is of, and no other") {
  const temporary_folder files;
  write_file(files / "text.txt", some_text());
  const auto calibrated = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"calibrate", "-f",    files / "text.txt", "--tokens", "300", "--prompts",
                                       "16",        "--out", files / "a.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return lazyprune_program(arguments);
  };
  const program_result result = calibrated({});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(result.out.find("| after | 4 probes |") != std::string::npos);
  const json file = json::parse(file_text(files / "a.json"));
  CHECK(file["version"] == 1);
  CHECK(file["model"]["name"] == "pocket");
  CHECK(file["model"]["layers"] == 6);
  CHECK(file["keep_last"] == 64);  // a tenth of these prompts has fewer tokens
  CHECK(file["following"] == 3);
  CHECK(file["fitted_on"] == "15 prompts made from text.txt");  // one answer is in the evidence rows
  REQUIRE(file["probes"].size() > 0);
  for (const json& probe : file["probes"]) CHECK(probe["layer"] < probe["after"]);
  const std::string first = file_text(files / "a.json");
  REQUIRE(calibrated({"-t", "1"}).code == 0);
  CHECK(file_text(files / "a.json") == first);
  REQUIRE(calibrated({"--probes", "2"}).code == 0);
  const json few = json::parse(file_text(files / "a.json"));
  std::map<int, int> of_stage;
  for (const json& probe : few["probes"]) ++of_stage[probe["after"]];
  for (const auto& entry : of_stage) CHECK(entry.second <= 2);

  json pruning = few;
  pruning["stages"] = "2:0.5";
  pruning["keep_last"] = 80;
  write_file(files / "b.json", pruning.dump());
  const auto run = [&] {
    return lazyprune_program(
        {"run", "-f", files / "text.txt", "-n", "8", "--ignore-eos", "-c", "4000", "--json", "--pruning-file", files / "b.json"});
  };
  const program_result pruned = run();
  REQUIRE_MESSAGE(pruned.code == 0, pruned.err);
  const json told = json::parse(pruned.out);
  CHECK(told["policy"]["text"].get<std::string>().find("--stages 2:0.5 --scorer calibrated_attention:window=64,block=16,probes=1.") !=
        std::string::npos);
  CHECK(told["policy"]["text"].get<std::string>().find("--keep-first 4 --keep-last 80 --least-tokens 640 --decode kept") !=
        std::string::npos);
  CHECK(told["computed"]["revived"] == 0);

  pruning["model"]["fingerprint"] = "0000000000000000";
  write_file(files / "b.json", pruning.dump());
  const program_result other = run();
  CHECK(other.code == 1);
  CHECK(other.err.find("b.json: model.fingerprint: expected ") != std::string::npos);
}

TEST_CASE("a calibration from samples takes their answers as labels") {
  const temporary_folder files;
  const program_result result =
      lazyprune_program({"calibrate", "-d", prompts("passage_retrieval"), "--limit", "12", "--block", "8", "--out", files / "a.json"});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(json::parse(file_text(files / "a.json"))["block"] == 8);
  CHECK(json::parse(file_text(files / "a.json"))["fitted_on"] ==
        "11 prompts from pocket_passage_retrieval.jsonl");  // one answer is in the evidence rows
}

TEST_CASE("samples without answers are labelled by what the model attends to") {
  const temporary_folder files;
  std::string unlabelled;
  std::size_t count = 0;
  for (const std::string& line : lines_of(file_text(prompts("passage_retrieval")))) {
    if (count++ == 12) break;
    const json sample = json::parse(line);
    const std::string prompt = sample["context"].get<std::string>() + ' ' + sample["input"].get<std::string>();
    unlabelled += json{{"index", count}, {"input", prompt}, {"outputs", json::array()}}.dump() + '\n';
  }
  const program_result result =
      lazyprune_program({"calibrate", "-d", "-", "--task", "niah_single_1", "--out", files / "a.json"}, unlabelled);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  CHECK(result.err.find("left out") == std::string::npos);
  CHECK(json::parse(file_text(files / "a.json"))["fitted_on"] == "12 prompts from -");
}

TEST_CASE("a calibration that cannot be written is refused before a prompt is read") {
  const temporary_folder files;
  write_file(files / "text.txt", some_text());
  CHECK(complaint(lazyprune_program({"calibrate", "-f", files / "text.txt", "--tokens", "300", "--prompts", "16", "--out",
                                     files / "no/a.json"})) == complaint_at(files / "no/a.json"));  // nothing is on stdout
}

TEST_CASE("a calibration without texts or with too few tokens is refused") {
  const temporary_folder files;
  write_file(files / "text.txt", "Too short.");
  const auto refused = [&](std::vector<std::string> flags, const std::string& words) {
    flags.insert(flags.begin(), "calibrate");
    flags.insert(flags.end(), {"--out", files / "a.json"});
    const program_result result = lazyprune_program(flags);
    CHECK(result.code != 0);
    CHECK_MESSAGE(result.err.find(words) != std::string::npos, result.err);
    CHECK_FALSE(std::filesystem::exists(files / "a.json"));
  };
  refused({}, "expected texts (-f) or samples (-d), found neither");
  refused({"-f", files / "text.txt", "-d", prompts("few_shot")}, "found both");
  refused({"-f", files / "text.txt"}, "texts of at least 2000 tokens");
}
