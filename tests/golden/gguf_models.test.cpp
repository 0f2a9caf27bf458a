// SPDX-License-Identifier: MIT
// Tests whole models from GGUF files. Their logits must be close to those of a float64 program, and must have the same bits as the logits
// of the same model from a folder.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "../model/llama2c.hpp"
#include "../model/tiny_model.hpp"
#include "../test_data.hpp"

#include <counted_allocations.hpp>
#include <fault.hpp>

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

template <class Backend>
std::vector<double> logits_after(const model<Backend>& net, Backend& backend, std::span<const token_id> tokens) {
  workspace<Backend> work(net, backend);
  auto text = begin(net, dense());
  const auto logits = forward(work, text, tokens, phase::prefill);
  return {logits.begin(), logits.end()};
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

fault said(const std::filesystem::path& path) {
  return error_of([&] {
    reference<float> backend{execution{}};
    load_model(backend, checkpoint(path));
  });
}

}  // namespace

TEST_CASE("every type and family has the logits of an independent float64 program that reads with gguf-py" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".gguf" || name == "llama-iq3_s") continue;
    CAPTURE(name);
    const auto expected = nlohmann::json::parse(read_text(folder / (name + ".expected.json")));
    const auto tokens = expected["tokens"].get<std::vector<token_id>>();
    reference<double> backend{execution{}};
    const auto net = load_model(backend, checkpoint(entry.path()), {.as = dtype::f32});
    for (std::size_t i = 0; i < expected["positions"].size(); ++i) {
      const auto logits = logits_after(net, backend, std::span(tokens).first(expected["positions"][i].get<std::size_t>() + 1));
      CHECK(largest_difference(logits, expected["exact_logits"][i].get<std::vector<double>>()) < 1e-5);
    }
    ++compared;
  }
  CHECK(compared >= 22);
}

TEST_CASE("a GGUF file of unquantized weights and the same model as a folder give the same bits" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const checkpoint file(folder / "llama-f32.gguf"), directory(folder / "llama"), halves(folder / "llama-bf16.gguf");
  std::vector<token_id> tokens;
  for (token_id t = 0; t < 40; ++t) tokens.push_back(t * 7 % 320);
  reference<double> exact{execution{}};
  CHECK(logits_after(load_model(exact, file), exact, tokens) == logits_after(load_model(exact, directory), exact, tokens));
  cpu backend({.threads = 2});
  CHECK(logits_after(load_model(backend, file), backend, tokens) == logits_after(load_model(backend, directory), backend, tokens));
  // The weights of `halves` were rounded when the file was written. The others are rounded when they are loaded.
  CHECK(logits_after(load_model(backend, halves), backend, tokens) ==
        logits_after(load_model(backend, directory, {.as = dtype::bf16}), backend, tokens));
}

TEST_CASE("a trained model gives the same logits from a GGUF file and from its original format" NEEDS("data")) {
  const auto folder = test_data("models/stories260K");
  if (folder.empty()) return;
  const llama2c_file own((folder / "stories260K.v1.bin").string());
  reference<double> backend{execution{}};
  const auto net = load_model(backend, checkpoint(folder / "stories260K-v3.gguf"));
  auto tokens = nlohmann::json::parse(read_text(folder / "ref64_greedy199.tokens.json")).get<std::vector<token_id>>();
  tokens.resize(60);
  CHECK(logits_after(net, backend, tokens) == logits_after(load_model(backend, own.config(), own), backend, tokens));
}

TEST_CASE("quantized weights stay quantized, or are widened to bf16 or float on request" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const checkpoint files(folder / "qwen2-q4_k_m.gguf");
  cpu backend({.threads = 2});
  const auto kept = load_model(backend, files), narrow = load_model(backend, files, {.as = dtype::bf16}),
             wide = load_model(backend, files, {.as = dtype::f32});
  CHECK(kept.weights.embedding.panels());
  CHECK(kept.weights.layers[1].gate_up.panels());
  CHECK(kept.weights.layers[1].gate_up.type() == dtype::bf16);
  CHECK(bytes_of(kept.weights) < bytes_of(narrow.weights) / 2);
  CHECK_FALSE(narrow.weights.layers[1].gate_up.panels());
  CHECK(narrow.weights.layers[1].gate_up.type() == dtype::bf16);
  CHECK(wide.weights.layers[1].q.type() == dtype::f32);
  CHECK(load_model(backend, checkpoint(folder / "llama-f16.gguf")).weights.layers[0].q.type() == dtype::f32);
}

TEST_CASE("with --exact, weights that stay quantized give the logits of weights in bf16" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  cpu backend({.threads = 2, .exact = true});
  std::vector<token_id> tokens(30);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<token_id>(3 + i * 7 % 300);
  for (const std::string type :
       {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs"}) {
    CAPTURE(type);
    const checkpoint files(folder / ("llama-" + type + ".gguf"));
    const auto kept = load_model(backend, files), widened = load_model(backend, files, {.as = dtype::bf16});
    CHECK(kept.weights.layers[0].down.panels());
    CHECK(logits_after(kept, backend, tokens) == logits_after(widened, backend, tokens));
  }
}

TEST_CASE("an unsupported type is refused by name" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  const std::filesystem::path file = folder / "llama-iq3_s.gguf";
  CHECK(said(file) ==
        unsupported(file.string() + ": tensor token_embd.weight",
                    {"F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4", "IQ3_S"}));
}

TEST_CASE("malformed files are refused without allocating much more than their size; valid ones load" NEEDS("data")) {
  const auto folder = test_data("gguf/malformed");
  if (folder.empty()) return;
  constexpr std::size_t of_any_file = std::size_t{32} << 10;  // for the open file, the names and the error message
  for (const auto& entry : nlohmann::json::parse(read_text(folder / "index.json"))) {
    const std::string name = entry.at("file"), refuse = entry.at("refuse");
    const std::size_t before = allocated_bytes;
    const std::string result = said(folder / name);
    const std::size_t allocated = allocated_bytes - before;  // freed memory counts, too
    CAPTURE(name);
    CAPTURE(result);
    if (refuse == "file" || refuse == "model") {
      CHECK(result != "no error");
      CHECK(allocated <= std::filesystem::file_size(folder / name) + of_any_file);
    }
    if (refuse == "no") CHECK(result == "no error");
  }
}
