// SPDX-License-Identifier: MIT
// Tests a tiny model of every family and corner case (families.jsonl). Compares its logits, dense and pruned, with the logits that
// transformers computed in float64. Some of the models are also written as GGUF files, and must then give the same logits.
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

#include <doctest/doctest.h>

#include "../files/gguf_writer.hpp"
#include "../files/support.hpp"
#include "../model/tiny_model.hpp"
#include "family_weights.hpp"

namespace {
namespace of_families {

using namespace lazyprune;
using namespace lazyprune_test;
using oracle = reference<double>;

/// Runs a prefill, and returns its trace with the logits. If the prompt is read in chunks, the trace has only the logits, rounded to float.
template <class Policy>
step_trace prefill(const model<oracle>& net, const Policy& policy, std::span<const token_id> tokens, std::size_t chunk = 0) {
  oracle backend{execution{}};
  workspace<oracle> work(net, backend);
  auto text = begin(net, policy);
  generation_options options{.chunk = chunk, .force = {0}, .trace_logits = true};
  if (chunk == 0) return generate(work, text, tokens, options).trace.at(0);
  options.trace_logits = false;
  step_trace result;
  options.on_logits = [&](std::span<const float> logits) { result.logits.assign(logits.begin(), logits.end()); };
  generate(work, text, tokens, options);
  return result;
}

double apart(const std::vector<double>& logits, const nlohmann::json& expected) {
  const auto values = expected.get<std::vector<double>>();
  REQUIRE(logits.size() == values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(logits[i] - values[i]));
  return worst;
}

model<oracle> loaded(const model_config& config) {
  oracle backend{execution{}};
  return load_model(backend, config, family_weights(config));
}

/// Records the names of the tensors that a model asks for.
struct asked_weights {
  family_weights numbers;
  std::map<std::string, tensor>* asked;

  bool contains(std::string_view name) const { return numbers.contains(name); }
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    return (*asked)[std::string(name)] = numbers.get(name, rows, columns);
  }
};

/// Returns the bytes of a GGUF file with the model, written as llama.cpp's converter writes it. `keys` are the metadata that not all
/// families have.
std::string gguf_of(const model_config& c, const std::vector<std::string>& keys) {
  const model_family& family = *find_family(&model_family::name, c.family);
  const std::string arch = std::string(family.gguf) + ".";
  const auto number = [&](const char* key, std::size_t value) { return gguf_key(arch + key, static_cast<std::uint32_t>(value)); };
  std::vector<std::string> all{gguf_key("general.architecture", std::string(family.gguf).c_str()),
                               number("context_length", c.max_positions),
                               number("embedding_length", c.hidden),
                               number("block_count", c.layers),
                               number("feed_forward_length", c.ffn),
                               number("attention.head_count", c.n_heads),
                               number("attention.head_count_kv", c.n_kv_heads),
                               gguf_key(arch + "attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_epsilon)),
                               gguf_key(arch + "rope.freq_base", static_cast<float>(c.rope.theta))};
  all.insert(all.end(), keys.begin(), keys.end());

  std::map<std::string, tensor> asked;
  oracle backend{execution{}};
  const asked_weights weights{family_weights(c), &asked};
  load_model(backend, c, weights);
  std::vector<gguf_tensor> tensors;
  const auto put = [&](const std::string& name, const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
    tensors.push_back({name, shape, 0, std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size())});
  };
  for (const auto& [name, t] : asked) {
    std::vector<float> values(t.rows * t.columns);
    widen(t, 0, values.size(), values.data());
    if (c.norms_less_one && name.ends_with("norm.weight"))
      for (float& value : values) value += 1.0f;
    const std::vector<std::uint64_t> shape =
        t.rows == 1 ? std::vector<std::uint64_t>{t.columns} : std::vector<std::uint64_t>{t.columns, t.rows};
    put(gguf_name_of(name, family.tensors), shape, values);
  }
  if (c.rope.scaling == rope_scaling::longrope)
    for (const bool extended : {false, true}) {
      const std::vector<double>& divisors = extended ? c.rope.long_divisors : c.rope.divisors;
      put(extended ? "rope_factors_long.weight" : "rope_factors_short.weight", {divisors.size()}, {divisors.begin(), divisors.end()});
    }
  return gguf_model(all, tensors);
}

}  // namespace of_families
}  // namespace

TEST_CASE("every family and corner case has the logits of transformers") {
  using namespace of_families;
  const auto goldens = family_goldens();
  CHECK(goldens.size() == 16);
  for (const auto& line : goldens) {
    const nlohmann::json& golden = line.second;
    CAPTURE(line.first);
    const auto net = loaded(config_of(golden));
    const auto tokens = golden.at("tokens").get<std::vector<token_id>>();
    for (std::size_t i = 0; i < golden.at("positions").size(); ++i) {
      oracle backend{execution{}};
      workspace<oracle> work(net, backend);
      auto text = begin(net, dense());
      const auto prompt = std::span(tokens).first(golden.at("positions")[i].get<std::size_t>() + 1);
      const auto logits = forward(work, text, prompt, phase::prefill);
      CHECK(apart({logits.begin(), logits.end()}, golden.at("logits")[i]) < 1e-5);  // transformers' RoPE, norms and softmax are in float32
    }
  }
}

TEST_CASE("a pruned prefill keeps the same tokens, and has the same logits, as a pruned prefill with the layers of transformers") {
  using namespace of_families;
  std::size_t compared = 0;
  for (const auto& line : family_goldens()) {
    const nlohmann::json& golden = line.second;
    if (!golden.contains("pruned")) continue;
    CAPTURE(line.first);
    const nlohmann::json& expected = golden.at("pruned");
    const auto net = loaded(config_of(golden));
    const step_trace step =
        prefill(net, lazyllm(stages::parse(expected.at("stages").get<std::string>())), golden.at("tokens").get<std::vector<token_id>>());
    REQUIRE(step.layers.size() == expected.at("active").size());
    for (std::size_t l = 0; l < step.layers.size(); ++l)
      CHECK(step.layers[l].active == expected.at("active")[l].get<std::vector<position>>());
    CHECK(apart(step.logits, expected.at("logits")) < 1e-5);
    ++compared;
  }
  CHECK(compared == 5);
}

TEST_CASE("with windows, too, a policy that keeps all tokens gives the bits of a dense run in one step, and so does a prompt in chunks") {
  using namespace of_families;
  const auto goldens = family_goldens();
  for (const char* name : {"mistral_window", "phi3_partial", "gemma2", "gemma3"}) {
    CAPTURE(name);
    const auto& golden = goldens.at(name);
    const auto net = loaded(config_of(golden));
    const auto tokens = golden.at("tokens").get<std::vector<token_id>>();
    const auto plain = prefill(net, dense(), tokens).logits;
    CHECK(prefill(net, lazyllm(stages{{2, 1.0}}), tokens).logits == plain);
    std::vector<double> rounded(plain.size());
    std::ranges::transform(plain, rounded.begin(), [](double logit) { return static_cast<float>(logit); });
    CHECK(prefill(net, dense(), tokens, 7).logits == rounded);
  }
}

TEST_CASE("a model from a GGUF file and from a Hugging Face folder give the same bits") {
  using namespace of_families;
  const auto goldens = family_goldens();
  const auto number = [](const char* key, std::uint32_t value) { return gguf_key(key, value); };
  const std::map<std::string, std::vector<std::string>> keys{
      {"phi3_window", {number("phi3.attention.sliding_window", 5), number("phi3.rope.dimension_count", 8)}},
      {"phi3_partial",
       {number("phi3.attention.sliding_window", 0), number("phi3.rope.dimension_count", 12),
        number("phi3.rope.scaling.original_context_length", 16)}},
      {"gemma2",
       {number("gemma2.attention.sliding_window", 6), number("gemma2.attention.key_length", 16),
        number("gemma2.attention.value_length", 16), gguf_key("gemma2.attn_logit_softcapping", 2.0f),
        gguf_key("gemma2.final_logit_softcapping", 5.0f)}},
      {"gemma3",
       {number("gemma3.attention.sliding_window", 6), number("gemma3.attention.key_length", 16),
        number("gemma3.attention.value_length", 16), number("gemma3.attention.sliding_window_pattern", 3),
        gguf_key("gemma3.rope.scaling.type", "linear"), gguf_key("gemma3.rope.scaling.factor", 8.0f)}},
  };
  for (const auto& line : keys) {
    CAPTURE(line.first);
    const auto& golden = goldens.at(line.first);
    model_config config = config_of(golden);
    config.attention_scale = 0;  // a GGUF file does not store the scale
    const temporary_folder folder;
    oracle backend{execution{}};
    const auto net = load_model(backend, checkpoint(folder.write("model.gguf", gguf_of(config, line.second))), {.as = dtype::f32});
    CHECK(net.config.windows == config.windows);
    CHECK(net.config.window_rope == config.window_rope);
    const auto tokens = golden.at("tokens").get<std::vector<token_id>>();
    CHECK(prefill(net, dense(), tokens).logits == prefill(loaded(config), dense(), tokens).logits);
  }
}
