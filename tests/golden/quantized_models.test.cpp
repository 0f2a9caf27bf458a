// SPDX-License-Identifier: MIT
// Tests whole models with quantized weights on every path, also on emulated registers: the tokens that each layer keeps, and the logits.
// All paths but amx round activations to 8 bits.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/files/ggml_rows.hpp>
#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "../model/tiny_model.hpp"
#include "../test_data.hpp"
#include "../tested_path.hpp"
#include "kept_tokens.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

/// The weights of a checkpoint, with its matrices in Q8_0 or Q4_0.
class quantized_weights {
 public:
  /// `bits`: 8 or 4. `keeps`: whether a backend may keep the blocks.
  quantized_weights(const checkpoint& files, int bits, bool keeps)
      : plain_(files), bits_(bits), rows_(*ggml_type_of(bits == 8 ? "Q8_0" : "Q4_0"), 0, keeps) {}

  bool contains(std::string_view name) const { return plain_.contains(name); }

  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const tensor plain = plain_.get(name, rows, columns);
    if (rows == 1) return plain;
    std::vector<float> numbers(rows * columns);
    widen(plain, numbers.data());
    std::string& bytes = made_[std::string(name)];
    if (bytes.empty())
      for (std::size_t i = 0; i < numbers.size(); i += block) append_block(std::span(numbers).subspan(i).first<block>(), bytes);
    return {dtype::bf16, rows, columns, reinterpret_cast<const std::byte*>(bytes.data()), &rows_};
  }

 private:
  static constexpr std::size_t block = 32;

  void append_block(std::span<const float, block> numbers, std::string& bytes) const {
    float most = 0;
    for (const float x : numbers) most = std::max(most, std::abs(x));
    const int largest = bits_ == 8 ? 127 : 7;
    const std::uint16_t scale = f16_of_float(most / static_cast<float>(largest));
    const auto code = [&](std::size_t i) {
      return std::clamp(static_cast<int>(std::lround(numbers[i] / float_of_f16(scale))), -largest, largest);
    };
    bytes += {static_cast<char>(scale & 0xff), static_cast<char>(scale >> 8)};
    if (bits_ == 8)
      for (std::size_t i = 0; i < block; ++i) bytes += static_cast<char>(code(i));
    else
      for (std::size_t i = 0; i < block / 2; ++i) bytes += static_cast<char>((code(i) + 8) | (code(i + block / 2) + 8) << 4);
  }

  checkpoint_weights plain_;
  int bits_;
  ggml_rows rows_;
  mutable std::map<std::string, std::string> made_;  // mutable, because a source's `get` is const
};

static_assert(tensor_source<quantized_weights>);

}  // namespace

// path_tolerance.hpp derives the margins from what a path rounds. The scores of the reference decide how many tokens are outside of them:
// 85 % or more. At least 75 % must be. Weights of 4 bits against the reference of 8 bits show that the test finds larger errors.
TEST_CASE("with quantized weights, each layer keeps the tokens of the reference, unless their scores are within rounding" ON_EVERY_PATH) {
  if (!test_all) return;  // sanitizers find nothing new
  const checkpoint files(pocket_model());
  const execution how = tested_execution();
  reference<double> exact;
  cpu backend(how);
  const auto oracle = [&](int bits) {
    return load_model(exact, files.config(), quantized_weights(files, bits, false), {.as = dtype::f32});
  };
  const auto packed = [&](int bits) { return load_model(backend, files.config(), quantized_weights(files, bits, true)); };
  const auto oracle8 = oracle(8), oracle4 = oracle(4);
  const auto net8 = packed(8), net4 = packed(4);
  REQUIRE(net8.weights.layers[0].down.panels());
  REQUIRE(net4.weights.layers[0].down.panels());
  const auto prompts = drawn_prompts(files, 10);
  const auto compare = [&](const auto& expected, const auto& net) {
    const kept_tokens kept = compare_kept_tokens(prompts, expected, net, backend, few_tokens,
                                                 [&](std::size_t tokens) { return path_tolerance::of_quantized(how, net.config, tokens); });
    MESSAGE(kept.text());
    CHECK(kept.certain >= kept.tokens * 3 / 4);
    return kept;
  };
  CHECK(compare(oracle8, net8).furthest <= 1);
  CHECK(compare(oracle4, net4).furthest <= 1);
  CHECK(compare(oracle8, net4).furthest > 1);
}

TEST_CASE("GGUF files of all quantized types keep the tokens of the reference, too" ON_EVERY_PATH_NEEDS("data")) {
  if (!test_all) return;  // sanitizers find nothing new
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  std::size_t files_compared = 0, tokens = 0, certain = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".gguf" || name == "llama-iq3_s") continue;
    CAPTURE(name);
    const checkpoint files(entry.path());
    const execution how = tested_execution();
    cpu backend(how);
    const auto net = load_model(backend, files);
    if (!net.weights.layers[0].down.panels()) continue;  // not a quantized type, or MXFP4
    reference<double> exact;
    const auto oracle = load_model(exact, files, {.as = dtype::f32});
    const auto prompt = nlohmann::json::parse(read_text(folder / (name + ".expected.json")))["tokens"].get<std::vector<token_id>>();
    const kept_tokens kept = compare_kept_tokens({prompt}, oracle, net, backend, stages{{1, 0.15}},
                                                 [&](std::size_t all) { return path_tolerance::of_quantized(how, net.config, all); });
    CHECK(kept.choices == 1);
    CHECK(kept.furthest <= 1);
    ++files_compared, tokens += kept.tokens, certain += kept.certain;
  }
  MESSAGE(certain << " of " << tokens << " tokens are outside of margins");
  CHECK(files_compared >= 18);
  CHECK(certain >= tokens * 3 / 4);
}

TEST_CASE("quantized models are at most 1.1 times as far from exact logits as in llama.cpp" ON_EVERY_PATH_NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  std::size_t compared = 0;
  for (const auto& theirs : nlohmann::json::parse(read_text(folder / "differences.json"))) {
    const auto file = folder / theirs["file"].get<std::string>();
    if (file.stem() == "llama-iq3_s" || file.stem() == "llama-f32" || file.stem() == "llama-bf16") continue;
    CAPTURE(file.stem().string());
    const auto expected = nlohmann::json::parse(read_text(folder / (file.stem().string() + ".expected.json")));
    const auto tokens = expected["tokens"].get<std::vector<token_id>>();
    cpu backend(tested_execution());
    const auto net = load_model(backend, checkpoint(file));
    workspace<cpu> work(net, backend);
    double squares = 0, count = 0;
    for (std::size_t i = 0; i < expected["positions"].size(); ++i) {
      auto text = begin(net, dense());
      const auto logits = forward(work, text, std::span(tokens).first(expected["positions"][i].get<std::size_t>() + 1), phase::prefill);
      const auto exact = expected["exact_logits"][i].get<std::vector<double>>();
      for (std::size_t n = 0; n < exact.size(); ++n, ++count) squares += (logits[n] - exact[n]) * (logits[n] - exact[n]);
    }
    CHECK(std::sqrt(squares / count) < 1.1 * theirs["llamacpp_minus_exact_rms"].get<double>());
    ++compared;
  }
  CHECK(compared >= 19);
}
