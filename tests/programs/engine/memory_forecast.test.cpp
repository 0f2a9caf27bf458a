// SPDX-License-Identifier: MIT
#include "engine/memory_forecast.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "engine/engine.hpp"
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

TEST_CASE("the exact mode of the backend cuda keeps weights as float") {
  const opened_model model(model_flags{.path = bundled_model});
  const auto weights = [&](const backend_flags& flags) { return forecast_memory(model, flags, 700, 720).weights; };
  CHECK(weights({.backend = "cuda", .exact = true}) == weights({.backend = "cuda", .dtype = "f32"}));
  CHECK(weights({.backend = "cuda"}) < weights({.backend = "cuda", .exact = true}));
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

namespace {

/// Writes a copy of the bundled model whose layers from 1 on have queries, keys and values of type F32.
void write_mixed_model(const std::string& folder) {
  std::filesystem::copy(bundled_model, folder);
  const std::string old = file_text(folder + "/model.safetensors");
  std::uint64_t size = 0;
  std::memcpy(&size, old.data(), sizeof size);
  json header = json::parse(old.substr(sizeof size, size));
  std::string data;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    const std::string bytes = old.substr(sizeof size + size + begin, end - begin);
    const bool widened = !name.starts_with("model.layers.0.") &&
                         (name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight"));
    const std::size_t at = data.size();
    if (widened)
      for (std::size_t i = 0; i < bytes.size(); i += 2) data += std::string(2, '\0') + bytes.substr(i, 2);
    else
      data += bytes;
    if (widened) tensor["dtype"] = "F32";
    tensor["data_offsets"] = {at, data.size()};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  size = text.size();
  write_file(folder + "/model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data);
}

}  // namespace

TEST_CASE("keys and values count with the type of each layer") {
  const temporary_folder files;
  write_mixed_model(files / "mixed");
  const opened_model plain(model_flags{.path = bundled_model}), mixed(model_flags{.path = files / "mixed"});
  const auto engine_of = [](const opened_model& model) { return load_engine({.threads = 1}, model); };
  const auto of_plain = engine_of(plain), of_mixed = engine_of(mixed);
  const std::size_t narrow = of_plain->kv_token_bytes() / 6;
  CHECK(of_plain->kv_row_bytes() == narrow);
  const std::size_t wide = load_engine({.dtype = "f32", .threads = 1}, plain)->kv_row_bytes();
  REQUIRE(wide > narrow);
  CHECK(of_mixed->kv_token_bytes() == narrow + 5 * wide);
  CHECK(of_mixed->kv_row_bytes() == (narrow + 5 * wide + 5) / 6);
  CHECK(forecast_memory(plain, {}, 700, 720).kv == 720 * 6 * narrow);
  CHECK(forecast_memory(mixed, {}, 700, 720).kv == 720 * (narrow + 5 * wide));
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
