// SPDX-License-Identifier: MIT
// Tests the program with the cuda backend on the emulated device (tests/backend/cuda/emulated).
#include "programs/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using json = nlohmann::json;

namespace {

const std::string device = "emulated device, 32.0 GiB, sm_80";

program_result on_emulated_device(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin() + 1, {"--backend", "cuda"});
  return running_program(std::move(arguments), "", {}, LAZYPRUNE_CUDA_PROGRAM).wait();
}

}  // namespace

TEST_CASE("--backend cuda: the same answer and the same number of rows as --backend cpu") {
  const std::string text = file_text(LAZYPRUNE_SOURCE_DIR "/examples/pocket/prompts/profile.txt");
  const std::vector<std::string> flags{"run", "-p", text.substr(text.find(' ', text.size() - 700) + 1), "-n", "8", "--json"};
  for (const bool exact : {false, true}) {
    CAPTURE(exact);
    std::vector<std::string> words = flags;
    if (exact) words.push_back("--exact");
    const program_result there = on_emulated_device(words), here = lazyprune_program(words);
    REQUIRE_MESSAGE(there.code == 0, there.err);
    const json run = json::parse(there.out), expected = json::parse(here.out);
    CHECK(run["backend"] == "cuda");
    CHECK(run["isa"] == "sm_80");
    CHECK(run["device"] == device);
    CHECK(there.err.starts_with("device: " + device + "\n"));
    CHECK(!expected.contains("device"));
    CHECK(run["tokens"] == expected["tokens"]);
    CHECK(run["text"] == expected["text"]);
    CHECK(run["tokens"].size() == 8);
    CHECK(run["prompt_tokens"].get<int>() > 100);
    // Only the prompt's rows are compared. The backends round scores differently, so decode steps may revive other tokens.
    CHECK(run["computed"]["per_layer"] == expected["computed"]["per_layer"]);
    CHECK(run["computed"]["per_layer"].back() < run["prompt_tokens"]);
    CHECK(run["computed"]["revived"].get<int>() > 0);
    for (const char* kind : {"weights", "kv", "store", "scratch"}) CHECK(run["memory"][kind].get<std::size_t>() > 0);
  }
}

TEST_CASE("bench --backend cuda: rates, shares of the GPU's peaks, and the cost model's prediction from timed sections") {
  const std::vector<std::string> flags{"bench", "--random-weights", "pocket", "-P",       "24",   "-n", "2", "-r",
                                       "1",     "--no-warmup",      "--peak", "--stages", "1:0.5"};
  std::vector<std::string> as_json = flags;
  as_json.insert(as_json.end(), {"-o", "json"});
  const program_result result = on_emulated_device(as_json);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const json rows = json::parse(result.out);
  REQUIRE(rows.size() == 4);
  for (const json& row : rows) {
    CHECK(row["isa"] == "sm_80");
    CHECK(row["threads"] == 1);
    CHECK(row["dtype"] == "bf16");
    CHECK(row["share_of_peak"].get<double>() > 0);
    CHECK(row["share_of_peak"].get<double>() < 0.01);  // the peaks are 312 TFLOP/s and 2,039 GB/s, but a processor computes here
  }
  CHECK(rows[0]["policy"] == "dense");
  const double predicted = rows[1]["predicted_speedup"].get<double>(), of_attention_alone = 6 / (1 + 5 / 4.0);
  CHECK(predicted > 1.2);
  CHECK(predicted < of_attention_alone);
  CHECK(rows[1]["overhead_share"].get<double>() > 0);
  for (const std::size_t pruned : {1u, 3u}) {  // both of prefill and of decode steps
    CHECK(rows[pruned]["predicted_with_memory"].get<double>() > 0.5);
    CHECK(!rows[pruned - 1].contains("predicted_with_memory"));
  }
  CHECK(rows[1]["predicted_with_memory"].get<double>() <= predicted * (1 + 1e-9));

  const program_result table = on_emulated_device(
      {"bench", "--random-weights", "pocket", "-P", "4", "-n", "0", "-r", "1", "--no-warmup", "--peak", "--policy", "dense"});
  CHECK(table.out.find(", cuda (" + device + "), loaded in ") != std::string::npos);
  CHECK(table.out.find("peak of the device: bf16 on tensor cores 311869 GFLOP/s, reading memory 2039 GB/s\n") != std::string::npos);
}

TEST_CASE("eval --backend cuda") {
  const program_result result =
      on_emulated_device({"eval", "-d", prompts("profile"), "--limit", "1", "--max-length", "60", "-n", "3", "-o", "json"});
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const json scores = json::parse(result.out);
  REQUIRE(scores.size() == 1);
  CHECK(scores[0]["n"] == 1);
  CHECK(scores[0]["ttft_s"].get<double>() > 0);
  CHECK(result.err.find("device: " + device + "\n") != std::string::npos);
}

TEST_CASE("flags that the cuda backend does not support are refused") {
  CHECK(complaint(on_emulated_device({"run", "-p", "a", "-t", "2"})) == complaint_at("--threads", {", found 2"}));
  CHECK(complaint(on_emulated_device({"bench", "-P", "8", "-t", "1,2"})) == complaint_at("--threads", {", found 1"}));
  CHECK(complaint(on_emulated_device({"run", "-p", "a", "--dtype", "f64"})) ==
        complaint_at("--dtype", {"auto, f32 or bf16", ", found f64"}));
  for (const std::string kv : {"f16", "q8_0"})
    CHECK(complaint(on_emulated_device({"run", "-p", "a", "--kv", kv})) ==
          complaint_at("--kv", {"auto, f32 or bf16 with the cuda backend", ", found " + kv}));
}
