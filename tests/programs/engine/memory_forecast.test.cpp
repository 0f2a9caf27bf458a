// SPDX-License-Identifier: MIT
#include "engine/memory_forecast.hpp"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/program.hpp"
#include "test_data.hpp"

using namespace lazyprune::program;
using json = nlohmann::json;

namespace {

/// Compares the forecast for a run of the bundled model with the memory that the run took.
void check_forecast(const std::vector<std::string>& more, const backend_flags& flags) {
  std::string ids = "1";
  for (int i = 1; i < 700; ++i) ids += "," + std::to_string(3 + i);
  std::vector<std::string> words{"run", "--ids", ids, "-n", "20", "--ignore-eos", "--policy", "dense", "-t", "1", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const program_result result = lazyprune_program(words);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  const json took = json::parse(result.out)["memory"];
  const opened_model model(model_flags{.path = bundled_model});
  const memory_forecast forecast = forecast_memory(model, flags, 700, 720);
  const auto near = [&](const char* key, std::size_t bytes, double least, double most) {
    CAPTURE(key);
    const double share = static_cast<double>(bytes) / took[key].get<double>();
    CHECK(share >= least);
    CHECK(share <= most);
  };
  near("weights", forecast.weights, 0.85, 1.05);  // tiles are padded
  near("kv", forecast.kv, 0.7, 1.05);             // blocks of keys are padded, too
  near("scratch", forecast.scratch, 0.5, 2.0);
  CHECK(forecast.total() == forecast.weights + forecast.kv + forecast.scratch);
}

}  // namespace

TEST_CASE("the forecast is close to the memory that a run takes") {
  check_forecast({}, {});
  check_forecast({"--dtype", "f32"}, {.dtype = "f32"});
  check_forecast({"--kv", "f32"}, {.kv = "f32"});
  check_forecast({"--kv", "q8_0"}, {.kv = "q8_0"});
  check_forecast({"--backend", "reference", "--dtype", "f32"}, {.backend = "reference", .dtype = "f32"});
}

TEST_CASE("weights that stay quantized take no more memory than the forecast says" NEEDS("data")) {
  const std::filesystem::path path = test_data("gguf/llama-q4_k_m.gguf");
  if (path.empty()) return;
  const opened_model model(model_flags{.path = path.string()});
  const auto share_of = [&](const std::vector<std::string>& more, const backend_flags& flags) {
    std::vector<std::string> words{"run", "-m", path.string(), "--ids", "1,5,7", "-n", "1", "--policy", "dense", "-t", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const program_result result = lazyprune_program(words);
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const double took = json::parse(result.out)["memory"]["weights"].get<double>();
    return static_cast<double>(forecast_memory(model, flags, 3, 4).weights) / took;
  };
  for (const double share : {share_of({}, {}), share_of({"--dtype", "bf16"}, {.dtype = "bf16"})}) {
    CHECK(share >= 0.95);
    CHECK(share <= 1.05);
  }
  CHECK(forecast_memory(model, {}, 3, 4).weights * 2 < forecast_memory(model, {.dtype = "bf16"}, 3, 4).weights);
}

TEST_CASE("a run that needs more memory than any machine has is refused unless forced") {
  try {
    check_memory({.weights = std::numeric_limits<std::size_t>::max() / 2, .kv = 7, .scratch = 7}, {});
    FAIL("nothing was thrown");
  } catch (const lazyprune::error& fault) {
    CHECK(fault.code() == lazyprune::error_code::no_memory);
    CHECK(fault.file() == "memory");
    CHECK(std::string(fault.what()).find("--force-memory") != std::string::npos);
  }
  check_memory({.weights = 1, .kv = 1, .scratch = 1}, {});
  CHECK(lazyprune_program({"run", "--ids", "1,5", "-n", "1", "--force-memory"}).code == 0);
}
