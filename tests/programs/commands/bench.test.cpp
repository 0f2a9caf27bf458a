// SPDX-License-Identifier: MIT
#include "programs/program.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <test_data.hpp>
#include <tested_path.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/model/cost_model.hpp>
#include <lazyprune/model/random_source.hpp>

using json = nlohmann::json;

namespace {

json bench_json(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "-o", "json", "-r", "2"});
  const program_result result = lazyprune_program(more);
  CHECK_MESSAGE(result.code == 0, result.err);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("every test has a dense row and a pruned row, with the documented keys") {
  const json rows = bench_json({"-P", "32,64", "-n", "3", "-t", "1,2", "--stages", "3:0.5"});
  REQUIRE(rows.size() == 12);
  std::vector<std::string> tests;
  for (const json& row : rows) {
    const std::string test = row["test"];
    tests.push_back(std::to_string(row["threads"].get<int>()) + " " + test);
    const bool pruned = row["policy"] != "dense", prefill = test.starts_with("pp");
    if (pruned) CHECK(row["policy"].get<std::string>().starts_with("--stages 3:0.5 --scorer "));
    CHECK(row["model"] == bundled_model);
    CHECK(row["dtype"] == "bf16");
    CHECK(row["isa"].is_string());
    CHECK(row["tokens_per_s"].get<double>() > 0);
    CHECK(row["seconds"].get<double>() > 0);
    CHECK(row["peak_bytes"].get<std::uint64_t>() > 2'900'000);  // the weights alone take more
    CHECK(row.contains("speedup") == pruned);
    CHECK(row.contains("predicted_speedup") == (pruned && prefill));
    CHECK(row.contains("predicted_with_memory") == pruned);
    CHECK(row.contains("overhead_share") == prefill);
    CHECK(row["sequences"] == 1);
    CHECK(row["seconds_to_load"].get<double>() > 0);
    CHECK(row.size() == std::size_t{11} + (pruned ? 2 : 0) + (pruned && prefill) + prefill);
    if (pruned) CHECK((row["predicted_with_memory"].get<double>() > 0.1 && row["predicted_with_memory"].get<double>() < 10));
    if (!pruned || !prefill) continue;
    CHECK(row["predicted_speedup"].get<double>() > 1.0);
    CHECK(row["predicted_with_memory"].get<double>() > 1.0);
    CHECK(row["predicted_with_memory"].get<double>() <= row["predicted_speedup"].get<double>() * (1 + 1e-9));
  }
  CHECK(tests == std::vector<std::string>{"1 pp32", "1 pp32", "1 pp64", "1 pp64", "1 tg3", "1 tg3", "2 pp32", "2 pp32", "2 pp64", "2 pp64",
                                          "2 tg3", "2 tg3"});
}

TEST_CASE("with --kv, rows name the type of keys and values, and take their memory") {
  const json usual = bench_json({"-P", "64", "-n", "2", "-t", "1", "--policy", "dense"});
  const json rows = bench_json({"-P", "64", "-n", "2", "-t", "1", "--policy", "dense", "--kv", "q8_0"});
  REQUIRE(rows.size() == usual.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(!usual[i].contains("kv"));
    CHECK(rows[i]["kv"] == "q8_0");
    CHECK(rows[i]["peak_bytes"].get<std::uint64_t>() < usual[i]["peak_bytes"].get<std::uint64_t>());
  }
}

TEST_CASE("weights that stay quantized are named by their type in the file" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const auto dtype_of = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words{"bench", "-o", "json", "-r", "1", "-P", "8", "-n", "1", "-t", "1", "-m", (folder / file).string()};
    words.insert(words.end(), more.begin(), more.end());
    const program_result result = lazyprune_program(words);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    return json::parse(result.out)[0]["dtype"].get<std::string>();
  };
  CHECK(dtype_of("llama-q8_0.gguf", {}) == "Q8_0");
  CHECK(dtype_of("llama-q4_k_m.gguf", {}) == "Q4_K");
  CHECK(dtype_of("llama-q4_k_m.gguf", {"--dtype", "bf16"}) == "bf16");
  CHECK(dtype_of("llama-mxfp4.gguf", {}) == "bf16");
}

TEST_CASE("--after-each generates after each prompt, and each test names its prompt length") {
  const json rows = bench_json({"-P", "16,32", "-n", "2", "-t", "1", "--policy", "dense", "--after-each"});
  std::vector<std::string> tests;
  for (const json& row : rows) tests.push_back(row["test"]);
  CHECK(tests == std::vector<std::string>{"pp16", "tg2 @ d16", "pp32", "tg2 @ d32"});
  for (const json& row : rows) CHECK(row["tokens_per_s"].get<double>() > 0);
}

TEST_CASE("--sequences: the rates of a batch are over all of its sequences") {
  const json rows = bench_json({"-P", "32", "-n", "3", "-t", "1", "--sequences", "1,4", "--stages", "3:0.5", "--peak"});
  REQUIRE(rows.size() == 8);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& row = rows[i];
    const double sequences = i < 4 ? 1 : 4, tokens = row["test"] == "pp32" ? 32 : 3;
    CHECK(row["sequences"] == sequences);
    CHECK(row["share_of_peak"].get<double>() > 0);
    // tokens_per_s is the mean rate of two repetitions; seconds is the time of the faster repetition.
    CHECK(row["tokens_per_s"].get<double>() * row["seconds"].get<double>() <= sequences * tokens * (1 + 1e-9));
    CHECK(row["tokens_per_s"].get<double>() * row["seconds"].get<double>() > sequences * tokens / 2);
    if (i >= 4) CHECK(row["peak_bytes"].get<std::uint64_t>() > rows[i - 4]["peak_bytes"].get<std::uint64_t>());
  }
  CHECK(rows[5]["predicted_speedup"].get<double>() > 1.0);
  CHECK(rows[5]["predicted_with_memory"].get<double>() > 1.0);

  const std::vector<std::string> two{"bench", "-P", "8", "-n", "1", "-r", "1", "-t", "1", "--sequences", "2", "-o"};
  const auto as = [&](const char* format) {
    std::vector<std::string> words = two;
    words.push_back(format);
    return lazyprune_program(words).out;
  };
  CHECK(as("csv").starts_with("model,isa,dtype,threads,sequences,test,policy,"));
  CHECK(as("md").find("| threads | sequences |") != std::string::npos);
  CHECK(as("md").find("rates and memory are over all sequences of a batch\n") != std::string::npos);
}

TEST_CASE("with a dense policy there is only a dense row") {
  const json rows = bench_json({"-P", "16", "-n", "0", "-t", "1", "--policy", "dense"});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["policy"] == "dense");
}

TEST_CASE("random weights need no file") {
  const json rows = bench_json({"--random-weights", "pocket", "-P", "16", "-n", "0", "-t", "1", "--dtype", "f32"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["model"] == "pocket");
  CHECK(rows[0]["dtype"] == "f32");
  CHECK(rows[1]["policy"].get<std::string>().starts_with("--stages 1:0.7,3:0.7,5:0.7 "));
}

TEST_CASE("--peak: prefills and decode steps have shares of the machine's peaks") {
  const json rows = bench_json({"-P", "64", "-n", "3", "-t", in_full() ? "1,2" : "1", "--peak"});
  REQUIRE(rows.size() == (in_full() ? 8 : 4));
  for (const json& row : rows) CHECK(row["share_of_peak"].get<double>() > 0);  // may be above 1: a model this small fits into the caches

  const program_result table = lazyprune_program({"bench", "-P", "16", "-n", "2", "-r", "1", "-t", "2", "--peak"});
  CHECK(table.code == 0);
  CHECK(table.out.find("peak of 2 threads: ") != std::string::npos);
  CHECK(table.out.find(" GFLOP/s, reading memory ") != std::string::npos);
  CHECK(table.out.find("| of peak |") != std::string::npos);
  std::istringstream lines(table.out.substr(table.out.find("\n|") + 1));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 131);  // 130 columns; the ± in a row has two bytes

  CHECK(complaint(lazyprune_program({"bench", "--backend", "reference", "--peak"})) ==
        complaint_at("--peak", {"cpu", "cuda", ", found reference"}));
}

TEST_CASE("--peak names the instruction that the products use: one for bytes, if activations are rounded to 8 bits" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const auto names_bytes = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"bench", "-r", "1", "-P",     "8",  "-n",
                                   "1",     "-t", "1", "--peak", "-m", (folder / "llama-q8_0.gguf").string()};
    words.insert(words.end(), more.begin(), more.end());
    const program_result result = lazyprune_program(words);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    REQUIRE(result.out.find("peak of 1 thread: ") != std::string::npos);
    return result.out.find("VPDPBUSD") != std::string::npos || result.out.find("VPMADDUBSW") != std::string::npos;
  };
  const lazyprune::isa path = lazyprune::cpu(lazyprune_test::tested_execution()).instructions();
  CHECK(names_bytes({}) == (path != lazyprune::isa::portable && path != lazyprune::isa::amx));
  CHECK(!names_bytes({"--dtype", "bf16"}));
}

TEST_CASE("--parts: the parts of a prefill add up to its time, and their operations to its operations") {
  const json rows = bench_json({"--random-weights", "pocket", "-P", "48", "-n", "2", "-t", "1", "--parts", "--stages", "3:0.5"});
  REQUIRE(rows.size() == 4);
  for (const json& row : rows) {
    const bool prefill = row["test"] == "pp48";
    double seconds = 0, operations = 0;  // operations in units of the peak
    for (const auto& [key, value] : row.items()) {
      if (key.ends_with("_seconds")) seconds += value.get<double>();
      if (!key.ends_with("_share_of_peak")) continue;
      CHECK(value.get<double>() > 0);
      operations += value.get<double>() * row[key.substr(0, key.find("_share")) + "_seconds"].get<double>();
    }
    CHECK(row.contains("norm_seconds") == prefill);
    if (!prefill) continue;
    CHECK(seconds == doctest::Approx(row["seconds"].get<double>()));
    CHECK(row["rest_seconds"].get<double>() >= 0);  // otherwise, some time was counted for two parts
    if (row["policy"] != "dense") continue;         // scoring has operations too
    const lazyprune::model_config pocket = lazyprune::shape_named("pocket");
    const lazyprune::cost_model alike;
    const double all = alike.prefill(pocket, std::vector<std::size_t>(pocket.layers, 48));
    CHECK(operations / (row["share_of_peak"].get<double>() * row["seconds"].get<double>()) ==
          doctest::Approx(1 - alike.logits(pocket) / all));
  }
  const program_result table =
      lazyprune_program({"bench", "-P", "16", "-n", "0", "-r", "1", "-t", "1", "--parts", "--policy", "dense", "--backend", "reference"});
  CHECK(table.code == 0);
  CHECK(table.out.find("| threads | test | policy | part              |") != std::string::npos);
  CHECK(table.out.find("| RoPE, KV cache    |") != std::string::npos);
  CHECK(table.out.find("of peak") == std::string::npos);  // the reference's peak is not known
}

TEST_CASE("the result as a table and as CSV") {
  const program_result table = lazyprune_program({"bench", "-P", "16", "-n", "2", "-r", "1", "-t", "1"});
  CHECK(table.code == 0);
  CHECK(table.out.find("| threads |") != std::string::npos);
  CHECK(table.out.find("of peak") == std::string::npos);
  CHECK(table.out.find("| predicted | with memory | reached |") != std::string::npos);
  CHECK(table.out.find("|   pp16 | pruned |") != std::string::npos);
  CHECK(table.out.find("|        pp16 + tg2 | pruned |") != std::string::npos);
  CHECK(table.out.find(" \xc2\xb1 ") != std::string::npos);

  const program_result csv = lazyprune_program({"bench", "-P", "16", "-n", "2", "-r", "1", "-t", "1", "-o", "csv"});
  CHECK(csv.code == 0);
  CHECK(
      csv.out.starts_with("model,isa,dtype,threads,test,policy,tokens_per_s,seconds,speedup,predicted_speedup,predicted_with_memory,"
                          "overhead_share,share_of_peak,peak_bytes\n"));
  CHECK(std::ranges::count(csv.out, '\n') == 5);
}
