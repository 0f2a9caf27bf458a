// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/io/trace_file.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "../test_data.hpp"
#include "llama2c.hpp"

namespace {

using namespace lazyprune;

template <class Backend>
model<Backend> load(const std::filesystem::path& directory, Backend& backend, std::optional<dtype> as = {}) {
  const checkpoint files(directory);
  return load_model(backend, files.config(), files, {.as = as});
}

std::vector<double> read_doubles(const std::filesystem::path& path) {
  const std::string bytes = read_text(path);
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

/// The largest difference of the logits when these tokens are fed one by one.
double difference_fed(const model<reference<double>>& net, const std::vector<token_id>& tokens, const std::vector<double>& expected) {
  reference<double> backend{execution{}};
  transformer<reference<double>> run(net, backend);
  decoder_state<reference<double>> state(net.config);
  any_session session(dense(), {.layers = static_cast<layer_id>(net.config.layers)});
  double worst = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto logits = run.forward(state, session, std::span(tokens).subspan(i, 1), i == 0 ? phase::prefill : phase::decode);
    worst = std::max(worst, largest_difference(logits, std::span(expected).subspan(i * net.config.vocabulary, net.config.vocabulary)));
  }
  return worst;
}

std::vector<token_id> random_tokens(std::size_t n, std::size_t vocabulary, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<token_id> tokens(n);
  for (token_id& t : tokens) t = static_cast<token_id>(random() % vocabulary);
  return tokens;
}

/// Each step's logits and the plans of a run of `steps` forced tokens.
template <class Backend, class Policy>
generation run(const model<Backend>& net, Policy policy, const std::vector<token_id>& prompt, std::size_t steps, int threads = 0) {
  Backend backend{execution{.threads = threads}};
  any_session session(policy, {.layers = static_cast<layer_id>(net.config.layers)});
  generation_options options;
  options.force = random_tokens(steps, net.config.vocabulary, 77);
  options.trace_logits = true;
  return generate(net, backend, session, prompt, options);
}

}  // namespace

TEST_CASE("logits of trained and random checkpoints, by independent float64 programs") {
  reference<double> backend{execution{}};
  SUBCASE("stories260K") {
    const auto folder = test_data("models/stories260K");
    if (folder.empty()) return;
    const llama2c_file file((folder / "stories260K.v1.bin").string());
    const auto net = load_model(backend, file.config(), file);
    std::vector<token_id> tokens = nlohmann::json::parse(read_text(folder / "ref64_greedy199.tokens.json")).get<std::vector<token_id>>();
    const auto expected = read_doubles(folder / "ref64_greedy199.f64");
    tokens.resize(expected.size() / net.config.vocabulary);
    CHECK(difference_fed(net, tokens, expected) < 1e-11);  // both in double: rounding errors only
  }
  SUBCASE("story-hf") {
    const auto folder = test_data("models/story-hf");
    if (folder.empty()) return;
    const auto net = load(folder, backend);
    std::vector<token_id> tokens = nlohmann::json::parse(read_text(folder / "ref64_greedy160.tokens.json")).get<std::vector<token_id>>();
    tokens.resize(139);  // up to the first EOS
    const auto expected = read_doubles(folder / "ref64_greedy160.f64");
    CHECK(difference_fed(net, tokens, expected) < 1e-11);
  }
}

TEST_CASE("logits of every family, by transformers") {
  const auto families = test_data("models/families");
  if (families.empty()) return;
  for (const std::string name : {"llama_gqa_tied", "llama_mha_untied_bias", "mistral_head_dim", "qwen2_bias", "llama3_rope_scaled",
                                 "llama_linear_rope", "llama_yarn_rope", "qwen3_qk_norm"}) {
    CAPTURE(name);
    reference<double> backend{execution{}};
    const auto net = load(families / name, backend);
    const auto expected = nlohmann::json::parse(read_text(families / name / "expected_logits.json"));
    const auto tokens = expected["tokens"].get<std::vector<token_id>>();
    transformer<reference<double>> run(net, backend);
    for (std::size_t i = 0; i < expected["positions"].size(); ++i) {
      decoder_state<reference<double>> state(net.config);
      any_session session(dense(), {.layers = static_cast<layer_id>(net.config.layers)});
      const auto prompt = std::span(tokens).first(expected["positions"][i].get<std::size_t>() + 1);
      const auto logits = run.forward(state, session, prompt, phase::prefill);
      CHECK(largest_difference(logits, expected["logits"][i].get<std::vector<double>>()) < 1e-5);  // its rotary tables are float32
    }
  }
  CHECK_THROWS_WITH_AS(checkpoint(families / "mistral_sliding"), doctest::Contains("sliding_window"), error);
}

TEST_CASE("traces of an independent float64 program: the same tokens at every layer and step, the same logits") {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  std::size_t traces = 0, steps = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().filename().string());
    const auto config = nlohmann::json::parse(read_text(entry.path()));
    reference<double> backend{execution{}};
    const auto net = load(folder.parent_path() / config["model"].get<std::string>(), backend);
    std::vector<stage> list;
    for (const auto& [after, share] : config["stages"].items())
      list.push_back({static_cast<layer_id>(std::stoul(after)), share.get<double>()});
    std::ranges::sort(list, {}, &stage::after);
    const protect selector{top_k{}, config["keep_first"].get<std::size_t>(), config["keep_last"].get<std::size_t>()};
    const session_options options{.layers = static_cast<layer_id>(net.config.layers)};
    any_session session = config["decode"] == "dense"
                              ? any_session(policy{last_query_attention{}, prompt_only{stages(list)}, selector, keep_all{}}, options)
                              : any_session(policy{last_query_attention{}, stages(list), selector, keep_all{}}, options);
    generation_options generation;
    generation.force = config["force_ids"].get<std::vector<token_id>>();
    generation.trace_logits = true;
    const auto prompt = config["ids"].get<std::vector<token_id>>();
    const auto result = generate(net, backend, session, prompt, generation);

    auto lines = entry.path();
    const auto expected = read_trace(lines.replace_extension(".jsonl"));
    REQUIRE(result.trace.size() == expected.size());
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CAPTURE(s);
      // The least margin in these traces is 1.7e-5, far above float's rounding: every step must agree.
      REQUIRE(result.trace[s].tokens == expected[s].tokens);
      REQUIRE(result.trace[s].layers == expected[s].layers);
      REQUIRE(result.trace[s].next == expected[s].next);
      REQUIRE(largest_difference(result.trace[s].logits, expected[s].logits) < 1e-9);
      for (std::size_t l = 0; l < expected[s].margin.size(); ++l) {
        REQUIRE(result.trace[s].margin[l].has_value() == expected[s].margin[l].has_value());
        // Scores are float: each is off by 6e-8 of itself at most, and so is their difference over the least kept.
        if (expected[s].margin[l]) REQUIRE(std::abs(*result.trace[s].margin[l] - *expected[s].margin[l]) < 3e-7);
      }
      ++steps;
    }
    CHECK(result.cost.rows == config["rows_computed"].get<std::size_t>());
    ++traces;
  }
  MESSAGE(traces << " traces, " << steps << " steps: all agree");
  CHECK(traces > 0);
}

TEST_CASE("a policy that keeps all is the dense model, bit for bit") {
  cpu loader{execution{}};
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto net = load(pocket_model(), loader, as);
    const auto prompt = random_tokens(700, net.config.vocabulary, 1);
    const auto expected = run(net, dense(), prompt, 6);
    const stages all{{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {5, 1.0}};
    const auto same = [&](const generation& result) {
      for (std::size_t s = 0; s < 6; ++s) {
        REQUIRE(result.trace[s].layers == expected.trace[s].layers);
        REQUIRE(result.trace[s].logits == expected.trace[s].logits);
      }
    };
    same(run(net, policy{last_query_attention{}, all, top_k{}, keep_all{}}, prompt, 6));
    same(run(net, policy{value_weighted_attention{}, all, top_k{}, none{}}, prompt, 6));
    same(run(net, policy{window_attention{.window = 16}, all, top_k{}, keep_all{}}, prompt, 6));
    same(run(net, policy{accumulated_attention{}, all, blocks{.size = 16}, keep_all{}}, prompt, 6));
    same(run(net, policy{key_norm{}, all, top_k{}, keep_all{}}, prompt, 6));
    same(run(net, policy{recency{}, stages{{0, 1.0}, {3, 1.0}}, top_k{}, none{}}, prompt, 6));
  }
}

TEST_CASE("the same bits for any number of threads, whatever the policy") {
  cpu loader{execution{}};
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto net = load(pocket_model(), loader, as);
    const auto prompt = random_tokens(600, net.config.vocabulary, 2);
    const auto compare = [&](const auto& policy) {
      const auto expected = run(net, policy, prompt, 5, 1);
      for (const int threads : {2, 3, 8}) {
        CAPTURE(threads);
        const auto result = run(net, policy, prompt, 5, threads);
        for (std::size_t s = 0; s < 5; ++s) {
          REQUIRE(result.trace[s].layers == expected.trace[s].layers);
          REQUIRE(result.trace[s].logits == expected.trace[s].logits);
        }
      }
    };
    const stages hard{{2, 0.5}, {4, 0.3}};
    compare(dense());
    compare(policy{last_query_attention{}, hard, top_k{}, keep_all{}});
    compare(policy{value_weighted_attention{}, hard, protect{top_k{}, 4, 16}, bounded{.rows = 100}});
    compare(policy{window_attention{.window = 16}, hard, blocks{.size = 16}, none{}});
    compare(policy{accumulated_attention{}, hard, top_p{.mass = 0.9}, keep_all{}});
    compare(policy{key_norm{}, hard, top_k{}, keep_all{}});
    compare(policy{last_query_attention{}, adaptive{.every = 2, .mass = 0.9}, top_k{}, keep_all{}});
  }
}

TEST_CASE("cpu agrees with the reference: logits, and kept sets wherever the margin allows") {
  const auto compare = [](std::optional<dtype> as, double tolerance) {
    cpu fast{execution{}};
    reference<double> exact{execution{}};
    const auto net = load(pocket_model(), fast, as);
    const auto oracle = load(pocket_model(), exact, as);
    const auto prompt = random_tokens(300, net.config.vocabulary, 3);
    for (const stages& schedule : {stages{}, stages{{2, 0.6}, {4, 0.5}}, stages{{1, 0.3}}}) {
      const auto policy = lazyllm(schedule);
      const auto expected = run(oracle, policy, prompt, 8), result = run(net, policy, prompt, 8);
      std::size_t agreed = 0;
      for (; agreed < 8; ++agreed) {
        bool clear = true;
        for (const auto& margin : expected.trace[agreed].margin) clear = clear && !(margin && *margin < 1e-3);
        if (result.trace[agreed].layers != expected.trace[agreed].layers) {
          CHECK_MESSAGE(!clear, "the kept sets part at step " << agreed << " where every margin is clear");
          break;  // from here on they are different runs
        }
        CHECK(largest_difference(result.trace[agreed].logits, expected.trace[agreed].logits) < tolerance);
      }
      MESSAGE(schedule.text() << ": " << agreed << " of 8 steps alike");
    }
  };
  // The pocket model's logits reach 30. In float each of its 6 layers adds rounding errors of about sqrt(256) * 6e-8 of the residual
  // stream, softmax and norms a few more; 2e-4 leaves a factor of ten. Its weights are bf16 numbers either way.
  compare(dtype::f32, 2e-4);
  compare(dtype::bf16, 2e-4);
}

TEST_CASE("a revived token's keys and values are those of its stored row") {
  using backend_type = reference<double>;
  backend_type backend{execution{}};
  const auto net = load(pocket_model(), backend);
  transformer<backend_type> run(net, backend);
  decoder_state<backend_type> state(net.config);
  any_session session(lazyllm(stages{{2, 0.3}, {4, 0.3}}), {.layers = static_cast<layer_id>(net.config.layers)});
  const auto prompt = random_tokens(120, net.config.vocabulary, 4);
  run.forward(state, session, prompt, phase::prefill);
  std::size_t checked = 0;
  for (const token_id next : random_tokens(12, net.config.vocabulary, 5)) {
    std::map<position, std::vector<double>> stored;  // hidden states before the step
    for (position t = 0; t < session.known(); ++t)
      if (session.tokens().stored(t)) {
        const double* row = state.aux.view().row(session.tokens().slot(t));
        stored[t].assign(row, row + net.config.hidden);
      }
    step_trace trace;
    run.forward(state, session, std::span(&next, 1), phase::decode, &trace);
    for (layer_id l = 0; l < net.config.layers; ++l)
      for (const position t : trace.layers[l].revived) {
        const auto& w = net.weights.layers[l];
        std::vector<double> norm(net.config.hidden), k(net.config.n_kv_heads * net.config.head_dim), v(k.size());
        const rows_view<double> norm_row{norm.data(), 1, norm.size(), norm.size()}, k_row{k.data(), 1, k.size(), k.size()},
            v_row{v.data(), 1, v.size(), v.size()};
        backend.rms_norm(rows_view<const double>{stored.at(t).data(), 1, norm.size(), norm.size()}, w.attention_norm,
                         net.config.rms_epsilon, norm_row);
        backend.multiply(norm_row, w.k, nullptr, k_row);
        backend.multiply(norm_row, w.v, nullptr, v_row);
        backend.rotate(k_row, net.config.head_dim, std::span(&t, 1), *state.rope);
        std::vector<float> keys(k.size()), values(k.size());
        const std::uint32_t slot = state.kv.slot(l, t);
        backend.read_keys(state.kv.rows(l), std::span(&slot, 1), keys.data());
        backend.read_values(state.kv.rows(l), std::span(&slot, 1), values.data());
        for (std::size_t i = 0; i < k.size(); ++i) {
          REQUIRE(keys[i] == static_cast<float>(k[i]));
          REQUIRE(values[i] == static_cast<float>(v[i]));
        }
        ++checked;
      }
  }
  CHECK(checked > 20);
}

TEST_CASE("a chat turn: a later prefill of several tokens goes on where the text ended") {
  reference<double> backend{execution{}};
  const auto net = load(pocket_model(), backend);
  transformer<reference<double>> run(net, backend);
  const auto prompt = random_tokens(60, net.config.vocabulary, 6);
  decoder_state<reference<double>> whole(net.config), parts(net.config);
  const session_options options{.layers = static_cast<layer_id>(net.config.layers)};
  any_session one(dense(), options), two(dense(), options);
  const auto expected = run.forward(whole, one, prompt, phase::prefill);
  run.forward(parts, two, std::span(prompt).first(25), phase::prefill);
  const auto logits = run.forward(parts, two, std::span(prompt).subspan(25), phase::prefill);
  CHECK(largest_difference(logits, expected) < 1e-10);  // sums in another order
}

TEST_CASE("tokens that are none of the model's, too many of them, another model's session") {
  reference<double> backend{execution{}};
  const auto net = load(pocket_model(), backend);
  transformer<reference<double>> run(net, backend);
  decoder_state<reference<double>> state(net.config);
  any_session session(dense(), {.layers = 6}), other(dense(), {.layers = 5});
  const std::vector<token_id> bad{1, 2304}, many(4097, 1), good{1};
  CHECK_THROWS_WITH_AS(run.forward(state, session, bad, phase::prefill),
                       "tokens: token id: expected below the vocabulary's 2304, found 2304", error);
  CHECK_THROWS_WITH_AS(run.forward(state, session, many, phase::prefill),
                       "tokens: length: expected at most the model's 4096 positions, found 4097", error);
  CHECK_THROWS_AS(run.forward(state, other, good, phase::prefill), error);
  CHECK_NOTHROW(run.forward(state, session, good, phase::prefill));
}
