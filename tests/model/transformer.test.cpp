// SPDX-License-Identifier: MIT
#include <lazyprune/model/transformer.hpp>

#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/files/trace_file.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>
#include <lazyprune/session/query_attention.hpp>

#include <doctest/doctest.h>

#include <backend/on_rows.hpp>
#include <cstring>
#include <fault.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "../path_tolerance.hpp"
#include "../test_data.hpp"
#include "../tested_path.hpp"
#include "followed.hpp"
#include "llama2c.hpp"
#include "tiny_model.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

template <class Backend>
model<Backend> load(const std::filesystem::path& directory, Backend& backend, std::optional<dtype> as = {}) {
  const checkpoint files(directory);
  return load_model(backend, files, {.as = as});
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

/// Reads the tokens one by one, and returns the largest difference between the logits and the expected logits.
double difference_fed(const model<reference<double>>& net, const std::vector<token_id>& tokens, const std::vector<double>& expected) {
  reference<double> backend{execution{}};
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, dense());
  double worst = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto logits = forward(work, seq, std::span(tokens).subspan(i, 1), i == 0 ? phase::prefill : phase::decode);
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

double root_mean_square(std::span<const double> numbers) {
  double sum = 0;
  for (const double x : numbers) sum += x * x;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

/// Returns the logits and plans of each step in a run of `steps` forced tokens.
template <class Backend, class Policy>
generation run(const model<Backend>& net, Policy policy, const std::vector<token_id>& prompt, std::size_t steps, Backend& backend) {
  workspace<Backend> work(net, backend);
  auto seq = begin(net, policy);
  generation_options options;
  options.force = random_tokens(steps, net.config.vocabulary, 77);
  options.trace_logits = true;
  return generate(work, seq, prompt, options);
}

template <class Policy>
generation run(const model<cpu>& net, Policy policy, const std::vector<token_id>& prompt, std::size_t steps, int threads = 1) {
  cpu backend{tested_execution({.threads = threads})};
  return run(net, policy, prompt, steps, backend);
}

}  // namespace

TEST_CASE("logits of trained and random checkpoints, compared with independent float64 programs" NEEDS("data")) {
  reference<double> backend{execution{}};
  SUBCASE("stories260K") {
    const auto folder = test_data("models/stories260K");
    if (folder.empty()) return;
    const llama2c_file file((folder / "stories260K.v1.bin").string());
    const auto net = load_model(backend, file.config(), file);
    std::vector<token_id> tokens = nlohmann::json::parse(read_text(folder / "ref64_greedy199.tokens.json")).get<std::vector<token_id>>();
    const auto expected = read_doubles(folder / "ref64_greedy199.f64");
    tokens.resize(expected.size() / net.config.vocabulary);
    CHECK(difference_fed(net, tokens, expected) < 1e-11);  // both are in double, so they differ only by rounding
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

TEST_CASE("logits of every family, compared with transformers" NEEDS("data")) {
  const auto families = test_data("models/families");
  if (families.empty()) return;
  for (const std::string name : {"llama_gqa_tied", "llama_mha_untied_bias", "mistral_head_dim", "qwen2_bias", "llama3_rope_scaled",
                                 "llama_linear_rope", "llama_yarn_rope", "qwen3_qk_norm", "mistral_sliding"}) {
    CAPTURE(name);
    reference<double> backend{execution{}};
    const auto net = load(families / name, backend);
    const auto expected = nlohmann::json::parse(read_text(families / name / "expected_logits.json"));
    const auto tokens = expected["tokens"].get<std::vector<token_id>>();
    workspace<reference<double>> work(net, backend);
    for (std::size_t i = 0; i < expected["positions"].size(); ++i) {
      auto seq = begin(net, dense());
      const auto prompt = std::span(tokens).first(expected["positions"][i].get<std::size_t>() + 1);
      const auto logits = forward(work, seq, prompt, phase::prefill);
      // The rotary tables of transformers are float32.
      CHECK(largest_difference(logits, expected["logits"][i].get<std::vector<double>>()) < 1e-5);
    }
  }
}

TEST_CASE("traces of an independent float64 program: the same tokens at every layer and step, the same logits" NEEDS("data")) {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  std::size_t traces = 0, steps = 0, cut = 0;
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
    workspace<reference<double>> work(net, backend);
    sequence<reference<double>> seq(net, std::move(session));
    const auto result = generate(work, seq, prompt, generation);

    auto lines = entry.path();
    const auto expected = read_trace(lines.replace_extension(".jsonl"));
    REQUIRE(result.trace.size() == expected.size());
    std::size_t compared = 0;
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CAPTURE(s);
      // Scores are floats. If a kept and a dropped score differ by less than their rounding, either token may be kept. All later steps
      // depend on this choice, so they are not compared.
      if (std::ranges::any_of(expected[s].margin, [](const auto& margin) { return margin && std::abs(*margin) < rounding_margin; })) {
        ++cut;
        break;
      }
      ++compared;
      REQUIRE(result.trace[s].tokens == expected[s].tokens);
      REQUIRE(result.trace[s].layers == expected[s].layers);
      REQUIRE(result.trace[s].next == expected[s].next);
      REQUIRE(largest_difference(result.trace[s].logits, expected[s].logits) < 1e-9);
      for (std::size_t l = 0; l < expected[s].margin.size(); ++l) {
        REQUIRE(result.trace[s].margin[l].has_value() == expected[s].margin[l].has_value());
        // A float score has a relative error of 6e-8 at most. The difference, relative to the lowest kept score, has a similar error.
        if (expected[s].margin[l]) REQUIRE(std::abs(*result.trace[s].margin[l] - *expected[s].margin[l]) < 3e-7);
      }
    }
    if (compared == expected.size()) CHECK(result.cost.rows == config["rows_computed"].get<std::size_t>());
    steps += compared;
    ++traces;
  }
  MESSAGE(traces << " traces, " << steps << " steps compared, all agree; " << cut << " traces cut at a choice closer than rounding");
  CHECK(traces > cut);
  CHECK(steps > 0);
}

TEST_CASE("a policy that keeps every token is the dense model, bit for bit" ON_EVERY_PATH) {
  cpu loader{tested_execution()};
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

TEST_CASE("a policy that keeps every token equals the dense model even if a wide window changes the blocks of rows" ON_EVERY_PATH) {
  cpu loader{tested_execution()};
  const stages all{{1, 1.0}, {3, 1.0}, {5, 1.0}};
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto net = load(pocket_model(), loader, as);
    // A window of 600 asks for a last block of 600 rows. The run then has two blocks instead of the dense run's three, or three instead
    // of four.
    for (const std::size_t length : {1100u, 1546u}) {
      CAPTURE(length);
      const auto prompt = random_tokens(length, net.config.vocabulary, 8);
      const auto expected = run(net, dense(), prompt, 2);
      const auto result = run(net, policy{window_attention{.window = 600}, all, top_k{}, keep_all{}}, prompt, 2);
      for (std::size_t s = 0; s < 2; ++s) {
        REQUIRE(result.trace[s].layers == expected.trace[s].layers);
        REQUIRE(result.trace[s].logits == expected.trace[s].logits);
      }
    }
  }
}

TEST_CASE("the same bits for any number of threads, whatever the policy" ON_EVERY_PATH) {
  cpu loader{tested_execution()};
  const bool all = in_full() || !named_path();  // paths differ in kernels, not in plans
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto net = load(pocket_model(), loader, as);
    const auto prompt = random_tokens(600, net.config.vocabulary, 2);
    const auto compare = [&](const auto& policy) {
      const auto expected = run(net, policy, prompt, 5, 1);
      for (const int threads : {2, 8}) {
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
    compare(policy{value_weighted_attention{}, hard, protect{top_k{}, 4, 16}, bounded{.rows = 100}});
    compare(policy{window_attention{.window = 16}, hard, blocks{.size = 16}, none{}});
    if (!all) continue;
    compare(policy{last_query_attention{}, hard, top_k{}, keep_all{}});
    compare(policy{accumulated_attention{}, hard, top_p{.mass = 0.9}, keep_all{}});
    compare(policy{key_norm{}, hard, top_k{}, keep_all{}});
    compare(policy{last_query_attention{}, adaptive{.every = 2, .mass = 0.9}, top_k{}, keep_all{}});
  }
}

TEST_CASE("cpu agrees with the reference: in logits, and in kept tokens unless scores differ by no more than rounding" ON_EVERY_PATH) {
  reference<double> exact{execution{}};
  const auto oracle = load(pocket_model(), exact);  // the checkpoint has bf16 numbers, so every variant has the same weights
  struct variant {
    std::string name;
    dtype weights;
    execution how;
    double largest = 0, other_choices = 0;  // the largest differences, as multiples of the allowed ones
  };
  std::vector<variant> variants{{"f32", dtype::f32, tested_execution()},
                                {"bf16, exact, keys and values in f32", dtype::bf16, tested_execution({.kv = dtype::f32, .exact = true})},
                                {"bf16, exact", dtype::bf16, tested_execution({.kv = dtype::bf16, .exact = true})},
                                {"bf16", dtype::bf16, tested_execution({.kv = dtype::bf16})}};
  // The tests of attention run every path with these types.
  if (!named_path())
    for (const dtype kv : {dtype::f16, dtype::q8_0})
      variants.push_back(
          {"bf16, exact, keys and values in " + std::string(name_of(kv)), dtype::bf16, tested_execution({.kv = kv, .exact = true})});
  std::vector<model<cpu>> nets;
  for (const variant& v : variants) {
    cpu loader{v.how};
    nets.push_back(load(pocket_model(), loader, v.weights));
  }
  const auto follow = [&](const std::string& name, const auto& scorer, const auto& schedule, std::size_t length, std::size_t steps) {
    const auto prompt = random_tokens(length, oracle.config.vocabulary, 3);
    score_log leader;
    const auto expected = run(oracle, policy{followed(scorer, leader), schedule, top_k{}, keep_all{}}, prompt, steps, exact).trace;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      variant& v = variants[i];
      CAPTURE(name);
      CAPTURE(v.name);
      cpu fast{v.how};
      score_log own;
      const auto result = run(nets[i], policy{followed(scorer, own, &leader), schedule, top_k{}, keep_all{}}, prompt, steps, fast).trace;
      const path_tolerance allowed(v.how, v.weights, oracle.config, length + steps);
      for (std::size_t s = 0; s < steps; ++s) {
        REQUIRE(result[s].layers == expected[s].layers);
        const double apart = largest_difference(result[s].logits, expected[s].logits);
        v.largest = std::max(v.largest, apart / allowed.logits(root_mean_square(expected[s].logits)));
        if (i < 2) CHECK(apart < 2e-4);  // no rounding to bf16
      }
      const double other =
          furthest_other_choice(expected, leader, own, [&](std::size_t layers, double spread) { return allowed.scores(layers, spread); });
      v.other_choices = std::max(v.other_choices, other);
    }
  };
  const stages two{{2, 0.6}, {4, 0.5}};
  follow("dense", last_query_attention{}, stages{}, 300, 8);
  follow("two stages", last_query_attention{}, two, 300, 8);
  follow("a hard stage", last_query_attention{}, stages{{1, 0.3}}, 300, 8);
  follow("value_weighted_attention", value_weighted_attention{}, two, 300, 8);
  follow("window_attention", window_attention{}, two, 300, 8);
  follow("accumulated_attention", accumulated_attention{}, two, 300, 8);
  follow("key_norm", key_norm{}, two, 300, 8);
  follow("1100 tokens in blocks", last_query_attention{}, two, 1100, 2);
  for (const variant& v : variants) {
    MESSAGE(v.name << ": relative to the allowed difference: logits " << v.largest << ", furthest other choice " << v.other_choices);
    CHECK(v.largest < 1);
    CHECK(v.largest > 0.01);  // the path really rounds
    CHECK(v.other_choices < 1);
  }
}

TEST_CASE("with keys and values in q8_0, logits differ by no more than each path may round" ON_EVERY_PATH) {
  reference<double> exact{execution{}};
  const auto oracle = load(pocket_model(), exact);
  const execution how = tested_execution({.kv = dtype::q8_0});
  cpu fast{how};
  const auto net = load(pocket_model(), fast, dtype::bf16);
  const auto prompt = random_tokens(300, oracle.config.vocabulary, 3);
  const policy whole{last_query_attention{}, stages{}, top_k{}, keep_all{}};
  const auto expected = run(oracle, whole, prompt, 1, exact).trace, result = run(net, whole, prompt, 1, fast).trace;
  const double allowed = path_tolerance(how, dtype::bf16, oracle.config, 301).logits(root_mean_square(expected[0].logits));
  const double apart = largest_difference(result[0].logits, expected[0].logits);
  CHECK(apart < allowed);
  CHECK(apart > 0.01 * allowed);
}

TEST_CASE("self-information equals the log-likelihood of each token when tokens are read one by one") {
  reference<double> exact{execution{}};
  const auto oracle = load(pocket_model(), exact);
  const auto tokens = random_tokens(150, oracle.config.vocabulary, 5);  // more than two blocks of logits
  std::vector<double> expected{std::numeric_limits<double>::infinity()};
  {
    workspace<reference<double>> work(oracle, exact);
    auto seq = begin(oracle, dense());
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto logits = forward(work, seq, std::span(tokens).subspan(i, 1), i == 0 ? phase::prefill : phase::decode);
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit - logits[tokens[i + 1]]);
      expected.push_back(std::log(sum));
    }
  }
  const auto information = [&](const auto& net, auto& backend, const auto& policy) {
    workspace work(net, backend);
    auto seq = begin(net, policy);
    return self_information(work, seq, std::span<const token_id>(tokens));
  };
  const auto differ = [&](const std::vector<double>& found) {
    REQUIRE(found.size() == tokens.size());
    CHECK(found.front() == expected.front());
    return largest_difference(std::span(found).subspan(1), std::span(expected).subspan(1));
  };
  CHECK(differ(information(oracle, exact, dense())) < 1e-10);
  cpu fast{tested_execution()};
  CHECK(differ(information(load(pocket_model(), fast, dtype::f32), fast, dense())) < 1e-3);  // logits reach 30 and more, in float

  CHECK(information(oracle, exact, random_drop(0.5)) == information(oracle, exact, dense()));  // no token is dropped: all are outputs

  workspace work(oracle, exact);
  auto seq = begin(oracle, dense());
  forward(work, seq, tokens, phase::prefill);
  CHECK(error_of([&] { self_information(work, seq, std::span<const token_id>(tokens)); }) == at("sequence: tokens", {", found 150"}));
}

TEST_CASE("a revived token's keys and values follow from its stored row") {
  using backend_type = reference<double>;
  backend_type backend{execution{}};
  const auto net = load(pocket_model(), backend);
  workspace<backend_type> work(net, backend);
  auto seq = begin(net, lazyllm(stages{{2, 0.3}, {4, 0.3}}));
  const any_session& session = seq.session();
  const auto rope = net.rope().reach(backend, 132);
  const auto prompt = random_tokens(120, net.config.vocabulary, 4);
  forward(work, seq, prompt, phase::prefill);
  std::size_t checked = 0;
  for (const token_id next : random_tokens(12, net.config.vocabulary, 5)) {
    std::map<position, std::vector<double>> stored;  // hidden states before the step
    for (position t = 0; t < session.known(); ++t)
      if (session.tokens().stored(t)) {
        const double* row = seq.aux_cache().row(session.tokens().slot(t));
        stored[t].assign(row, row + net.config.hidden);
      }
    trace_recorder recorder;
    forward(work, seq, std::span(&next, 1), phase::decode, &recorder);
    const step_trace& trace = recorder.steps().front();
    for (layer_id l = 0; l < net.config.layers; ++l)
      for (const position t : trace.layers[l].revived) {
        const auto& w = net.weights.layers[l];
        std::vector<double> norm(net.config.hidden), k(net.config.n_kv_heads * net.config.head_dim), v(k.size());
        const rows_view<double> norm_row{norm.data(), 1, norm.size(), norm.size()}, k_row{k.data(), 1, k.size(), k.size()},
            v_row{v.data(), 1, v.size(), v.size()};
        backend.rms_norm(rows_view<const double>{stored.at(t).data(), 1, norm.size(), norm.size()}, w.attention_norm,
                         net.config.rms_epsilon, norm_row);
        lazyprune_test::multiply(backend, norm_row, w.k, nullptr, k_row);
        lazyprune_test::multiply(backend, norm_row, w.v, nullptr, v_row);
        backend.rotate(k_row, net.config.head_dim, std::span(&t, 1), rope->values);
        std::vector<double> keys(k.size()), values(k.size());
        const std::uint32_t slot = seq.kv().slot(l, t);
        backend.read_keys(seq.kv().rows(l), std::span(&slot, 1), keys.data());
        backend.read_values(seq.kv().rows(l), std::span(&slot, 1), values.data());
        for (std::size_t i = 0; i < k.size(); ++i) {
          REQUIRE(keys[i] == k[i]);
          REQUIRE(values[i] == v[i]);
        }
        ++checked;
      }
  }
  CHECK(checked > 20);
}

TEST_CASE("a chat turn: a later prefill of several tokens continues the sequence") {
  reference<double> backend{execution{}};
  const auto net = load(pocket_model(), backend);
  const auto prompt = random_tokens(60, net.config.vocabulary, 6);
  workspace<reference<double>> work(net, backend), other(net, backend);
  auto whole = begin(net, dense()), parts = begin(net, dense());
  const auto expected = forward(work, whole, prompt, phase::prefill);
  forward(other, parts, std::span(prompt).first(25), phase::prefill);
  const auto logits = forward(other, parts, std::span(prompt).subspan(25), phase::prefill);
  CHECK(largest_difference(logits, expected) < 1e-10);  // the sums are in another order
}

TEST_CASE("wrong token ids, too many tokens, no tokens, or another model's sequence are errors that change nothing") {
  reference<double> backend{execution{}};
  const auto net = load(pocket_model(), backend), other = load(pocket_model(), backend);
  workspace<reference<double>> work(net, backend);
  auto seq = begin(net, dense()), others = begin(other, dense());
  const std::vector<token_id> bad{1, 2304}, many(4097, 1), good{1};
  CHECK(error_of([&] { forward(work, seq, bad, phase::prefill); }) == at("tokens: token id", {"2304", ", found 2304"}));
  CHECK(error_of([&] { forward(work, seq, many, phase::prefill); }) == at("tokens: length", {"4096", ", found 4097"}, error_code::no_room));
  CHECK(error_of([&] { forward(work, seq, {}, phase::prefill); }) == at("session: begin"));
  CHECK(error_of([&] { forward(work, others, good, phase::prefill); }) == at("sequence: model"));
  CHECK(seq.known() == 0);
  CHECK(seq.session().known() == 0);
  CHECK_NOTHROW(forward(work, seq, good, phase::prefill));
}

// The tests below compare evidence with the numbers that the model computed. Each scorer records its view, and computes its scores from
// positions alone. So runs with different evidence keep the same tokens.

namespace {

using exact = reference<double>;

/// The arguments of one call of a scorer. A comment that names kinds of evidence says that only these kinds set the member.
struct evidence_copy {
  layer_id layer = 0;                  // every_layer
  std::vector<float> memory;           // every_layer: the memory before the call
  std::vector<position> positions;     // (active)
  std::vector<position> rows;          // (rows): hidden
  std::vector<token_id> ids;           // (known): ids
  std::size_t queries = 0, heads = 0;  // attention
  std::vector<float> attention;        // (queries, heads, active)
  std::vector<float> vectors;          // (active, kv_heads * head_dim): keys, values; (rows, hidden): hidden
  float at(std::size_t q, std::size_t h, std::size_t i) const { return attention[(q * heads + h) * positions.size() + i]; }
  void add(const attention_view& view) {
    ++queries;
    heads = view.heads;
    positions.assign(view.positions.begin(), view.positions.end());
    for (std::size_t h = 0; h < heads; ++h) attention.insert(attention.end(), view.head(h).begin(), view.head(h).end());
  }
  void add(const window_view& view) {
    for (std::size_t q = 0; q < view.queries; ++q) add(view.query(q));
  }
  void add(const probe_view& view) {
    heads = view.probes;
    positions.assign(view.positions.begin(), view.positions.end());
    for (std::size_t p = 0; p < heads; ++p) attention.insert(attention.end(), view.probe(p).begin(), view.probe(p).end());
  }
  void add(const key_view& view) { add_vectors(view); }
  void add(const value_view& view) {
    add(view.attention);
    add_vectors(view, view.attention.positions);
  }
  void add(const id_view& view) {
    positions.assign(view.positions.begin(), view.positions.end());
    ids.assign(view.ids.begin(), view.ids.end());
  }
  void add(const hidden_view& view) {
    positions.assign(view.positions.begin(), view.positions.end());
    rows.assign(view.rows.begin(), view.rows.end());
    for (std::size_t r = 0; r < rows.size(); ++r) vectors.insert(vectors.end(), view.row(r).begin(), view.row(r).end());
  }
  template <class View>
  void add(const every_layer<View>& view) {
    add(view.now);
    layer = view.layer;
    memory.assign(view.memory.begin(), view.memory.end());
    for (const position t : positions) view.memory[t] += static_cast<float>(layer + 1);
  }

 private:
  void add_vectors(const key_view& view) { add_vectors(view, view.positions); }
  void add_vectors(const auto& view, std::span<const position> active) {
    positions.assign(active.begin(), active.end());
    for (std::size_t i = 0; i < active.size(); ++i)
      for (std::size_t h = 0; h < view.kv_heads; ++h) {
        const auto head = view.head(i, h);
        vectors.insert(vectors.end(), head.begin(), head.end());
      }
  }
};

template <class View>
struct writes_down {
  std::vector<evidence_copy>* copies = nullptr;
  std::size_t window = 6;

  void score(const View& view, std::span<float> out) const {
    copies->emplace_back().add(view);
    const std::vector<position>& positions = copies->back().positions;
    for (std::size_t i = 0; i < positions.size(); ++i)  // scores differ from step to step, so that some tokens come back
      out[i] = static_cast<float>((positions[i] * 0x9e3779b1u ^ positions.back() * 0x85ebca6bu) >> 8);
  }
};

/// Like writes_down, but reads only the mean over the heads.
template <class View>
struct writes_down_means : writes_down<View> {
  head_reduction over_heads() const { return head_reduction::mean; }
};

/// Like writes_down, but reads some heads of some layers, each reduced over the queries.
template <class View>
struct writes_down_probes : writes_down<View> {
  static constexpr head_probe some[]{{5, query_reduction::mean},
                                     {0, query_reduction::last},
                                     {5, query_reduction::max},
                                     {2, query_reduction::max},
                                     {0, query_reduction::mean}};
  std::span<const head_probe> probes(layer_id layer) const {
    return layer == 2 ? std::span<const head_probe>{} : std::span(some).first(layer + 2);
  }
};

model_config odd_config() {
  model_config c = shape_named("pocket");
  c.vocabulary = 97;
  c.hidden = 24;
  c.layers = 5;
  c.n_heads = 6;
  c.n_kv_heads = 2;
  c.head_dim = 8;
  c.ffn = 40;
  c.max_positions = 128;
  return c;
}

struct recorded_step {
  step_trace trace;
  std::vector<evidence_copy> copies;
};

/// Reads a prompt of 40 tokens and then 12 tokens one by one. Calls `look(recorded, seq, session)` after each step.
template <class View, template <class> class Scorer = writes_down, class Look>
std::vector<recorded_step> record(const model<exact>& net, const stages& when, Look&& look) {
  exact backend{execution{}};
  workspace<exact> work(net, backend);
  std::vector<evidence_copy> copies;
  Scorer<View> scorer;
  scorer.copies = &copies;
  auto seq = begin(net, policy{scorer, when, top_k{}, keep_all{}});
  const auto tokens = random_tokens(52, net.config.vocabulary, 11);
  std::vector<recorded_step> steps;
  for (std::size_t done = 0; done < tokens.size();) {
    const auto now = std::span(tokens).subspan(done, done == 0 ? 40 : 1);
    copies.clear();
    trace_recorder recorder;
    forward(work, seq, now, done == 0 ? phase::prefill : phase::decode, &recorder);
    done += now.size();
    CAPTURE(steps.size());
    steps.push_back({recorder.steps().front(), copies});
    look(steps.back(), seq, seq.session());
  }
  CHECK(seq.session().stats().revived > 20);
  return steps;
}

/// Stages that prune after every layer, so that every layer but the last has evidence.
const stages everywhere{{1, 0.8}, {2, 0.7}, {3, 0.8}, {4, 0.6}};

/// Returns the numbers of `row`, (columns), as floats.
std::vector<float> as_floats(const double* row, std::size_t columns) { return {row, row + columns}; }

std::span<const float> row_of(const evidence_copy& copy, std::size_t row, std::size_t columns) {
  return std::span(copy.vectors).subspan(row * columns, columns);
}

/// Returns the queries or keys of one row: the product of the layer's input with W_q or W_k, after RoPE.
std::vector<double> projected(const model<exact>& net, layer_id layer, const exact::matrix& w, std::vector<double> hidden, position t) {
  exact backend{execution{}};
  const auto one_row = [](std::vector<double>& v) { return rows_view<double>{v.data(), 1, v.size(), v.size()}; };
  std::vector<double> out(w.outputs());
  backend.rms_norm(one_row(hidden), net.weights.layers[layer].attention_norm, net.config.rms_epsilon, one_row(hidden));
  lazyprune_test::multiply(backend, one_row(hidden), w, nullptr, one_row(out));
  const rope_frequencies frequencies = frequencies_of(net.config.rope, net.config.head_dim);
  backend.rotate(one_row(out), net.config.head_dim, std::span(&t, 1), backend.make_rope(frequencies.radians, frequencies.scale, t + 1));
  return out;
}

model<exact> tiny_model() {
  exact backend{execution{}};
  return load_model(backend, odd_config(), random_source(odd_config(), dtype::f32));
}

}  // namespace

TEST_CASE("evidence: keys and values are those in the cache, of the active tokens") {
  const auto net = tiny_model();
  const std::size_t width = net.config.n_kv_heads * net.config.head_dim;
  const auto same = [&](const recorded_step& step, const auto& seq, bool values) {
    REQUIRE(step.copies.size() == 4);
    for (layer_id l = 0; l < 4; ++l) {
      REQUIRE(step.copies[l].positions == step.trace.layers[l].active);
      REQUIRE(step.copies[l].vectors.size() == step.copies[l].positions.size() * width);
      for (std::size_t i = 0; i < step.copies[l].positions.size(); ++i) {
        const std::uint32_t slot = seq.kv().slot(l, step.copies[l].positions[i]);
        const auto& cache = seq.kv().rows(l);
        REQUIRE(std::ranges::equal(row_of(step.copies[l], i, width), as_floats(values ? cache.value(slot) : cache.key(slot), width)));
      }
    }
  };
  record<key_view>(net, everywhere, [&](const auto& step, const auto& seq, const auto&) { same(step, seq, false); });
  record<value_view>(net, everywhere, [&](const auto& step, const auto& seq, const auto&) { same(step, seq, true); });
}

TEST_CASE("evidence: hidden states are the layer's outputs, for the computed rows") {
  const auto net = tiny_model();
  const std::size_t hidden = net.config.hidden, width = net.config.n_kv_heads * net.config.head_dim;
  std::size_t spilled = 0, carried = 0;
  record<hidden_view>(net, everywhere, [&](const auto& step, const auto& seq, const auto& session) {
    REQUIRE(step.copies.size() == 4);
    for (layer_id l = 0; l < 4; ++l) {
      const evidence_copy& copy = step.copies[l];
      REQUIRE(copy.positions == step.trace.layers[l].active);
      REQUIRE(copy.rows == step.trace.layers[l].rows);
      REQUIRE(copy.vectors.size() == copy.rows.size() * hidden);
      for (std::size_t r = 0; r < copy.rows.size(); ++r) {
        const position t = copy.rows[r];
        if (session.tokens().frontier(t) == l + 1) {  // dropped after this layer: its row is in the Aux Cache
          REQUIRE(session.tokens().stored(t));
          REQUIRE(std::ranges::equal(row_of(copy, r, hidden), as_floats(seq.aux_cache().row(session.tokens().slot(t)), hidden)));
          ++spilled;
          continue;
        }
        // The token was kept, so the next layer's keys follow from its row. The view rounds the row to float, with an error of 6e-8 for
        // numbers below 1.
        const auto row = row_of(copy, r, hidden);
        const auto keys = projected(net, l + 1, net.weights.layers[l + 1].k, {row.begin(), row.end()}, t);
        REQUIRE(largest_difference(keys, {seq.kv().rows(l + 1).key(seq.kv().slot(l + 1, t)), width}) < 1e-6);
        ++carried;
      }
    }
  });
  CHECK(spilled > 40);
  CHECK(carried > 40);
}

TEST_CASE("evidence: ids are those of all known tokens") {
  const auto net = tiny_model();
  std::size_t far = 0;
  record<id_view>(net, everywhere, [&](const auto& step, const auto& seq, const auto&) {
    REQUIRE(step.copies.size() == 4);
    for (layer_id l = 0; l < 4; ++l) {
      REQUIRE(step.copies[l].positions == step.trace.layers[l].active);
      REQUIRE(std::ranges::equal(step.copies[l].ids, seq.tokens()));
      far += step.copies[l].ids.size() > step.copies[l].positions.size();
    }
  });
  CHECK(far > 4);  // layers where tokens were dropped, so a position is not an index of `active`
}

TEST_CASE("evidence: every view with attention holds the query token's attention to the active tokens") {
  const auto net = tiny_model();
  const std::size_t heads = net.config.n_heads, hidden = net.config.hidden;
  const auto nothing = [](const auto&, const auto&, const auto&) {};
  const auto outputs = record<hidden_view>(net, everywhere, nothing);
  std::size_t number = 0;
  const auto attention = record<attention_view>(net, everywhere, [&](const auto& step, const auto& seq, const auto&) {
    const recorded_step& other = outputs[number++];
    REQUIRE(step.trace.layers == other.trace.layers);
    REQUIRE(step.copies.size() == 4);
    for (layer_id l = 0; l < 4; ++l) {
      const evidence_copy& copy = step.copies[l];
      REQUIRE(copy.positions == step.trace.layers[l].active);
      REQUIRE(copy.heads == heads);
      // The query token's input is its embedding, or the last row of the previous layer's output, because the query has the last position.
      std::vector<double> input(hidden);
      if (l == 0) {
        exact{execution{}}.embed(net.weights.embedding, std::span(&step.trace.tokens.back(), 1), 1.0, {input.data(), 1, hidden, hidden});
      } else {
        const auto row = row_of(other.copies[l - 1], other.copies[l - 1].rows.size() - 1, hidden);
        input.assign(row.begin(), row.end());
      }
      const auto query = projected(net, l, net.weights.layers[l].q, input, copy.positions.back());
      std::vector<std::uint32_t> slots;
      seq.kv().slots(l, copy.positions, slots);
      const auto& cache = seq.kv().rows(l);
      REQUIRE(cache.size() <= cache.block_slots);  // one block, so its keys are contiguous
      const key_rows<double> keys{cache.key(0), net.config.n_kv_heads, net.config.head_dim, cache.width(), slots};
      std::vector<float> expected(copy.attention.size());
      query_attention(query.data(), heads, keys, copy.positions, expected.data(), copy.positions.size());
      // Probabilities are about 1/40. Float scores below 1 have an error of 6e-8, which changes probabilities by 2e-9. The
      // probabilities of different tokens differ by about 1e-4.
      float worst = 0, least = 1, most = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(copy.attention[i] - expected[i]));
        least = std::min(least, expected[i]);
        most = std::max(most, expected[i]);
      }
      REQUIRE(worst < 1e-7f);
      if (copy.positions.size() > 1) REQUIRE(most - least > 1e-5f);
    }
  });

  const auto values = record<value_view>(net, everywhere, nothing), window = record<window_view>(net, everywhere, nothing);
  std::size_t several = 0;
  for (std::size_t s = 0; s < attention.size(); ++s) {
    CAPTURE(s);
    REQUIRE(values[s].trace.layers == attention[s].trace.layers);
    REQUIRE(window[s].trace.layers == attention[s].trace.layers);
    for (std::size_t l = 0; l < 4; ++l) {
      CAPTURE(l);
      REQUIRE(values[s].copies[l].attention == attention[s].copies[l].attention);
      const evidence_copy& copy = window[s].copies[l];
      const std::vector<position>& rows = window[s].trace.layers[l].rows;
      REQUIRE(copy.positions == window[s].trace.layers[l].active);
      REQUIRE(copy.queries == std::min<std::size_t>(6, rows.size()));
      if (copy.queries > 1 && s > 0) ++several;
      for (std::size_t h = 0; h < heads; ++h) {
        for (std::size_t q = 0; q < copy.queries; ++q) {
          double sum = 0;
          for (std::size_t i = 0; i < copy.positions.size(); ++i) {
            const bool seen = copy.positions[i] <= rows[rows.size() - copy.queries + q];
            REQUIRE((copy.at(q, h, i) > 0.0f) == seen);
            sum += copy.at(q, h, i);
          }
          REQUIRE(std::abs(sum - 1.0) < 1e-6);  // 40 floats of about 1/40, each with a relative error of 6e-8
        }
        for (std::size_t i = 0; i < copy.positions.size(); ++i)
          REQUIRE(copy.at(copy.queries - 1, h, i) == attention[s].copies[l].at(0, h, i));
      }
    }
  }
  CHECK(several > 0);  // there were windows with revived rows
}

TEST_CASE("evidence: a scorer that reads only the mean over heads gets this mean as one head; evidence with values has every head") {
  const auto net = tiny_model();
  const auto nothing = [](const auto&, const auto&, const auto&) {};
  const auto compare = [](const std::vector<recorded_step>& each, const std::vector<recorded_step>& one) {
    REQUIRE(each.size() == one.size());
    for (std::size_t s = 0; s < each.size(); ++s) {
      REQUIRE(each[s].trace.layers == one[s].trace.layers);
      for (std::size_t l = 0; l < 4; ++l) {
        const evidence_copy &from = each[s].copies[l], &found = one[s].copies[l];
        REQUIRE(found.heads == 1);
        REQUIRE(found.queries == from.queries);
        REQUIRE(found.positions == from.positions);
        const std::size_t active = from.positions.size();
        std::vector<float> expected(from.queries * active);
        for (std::size_t q = 0; q < from.queries; ++q)
          reduce_heads({&from.attention[q * from.heads * active], from.heads, active, from.positions}, head_reduction::mean,
                       std::span(expected).subspan(q * active, active));
        REQUIRE(found.attention == expected);
      }
    }
  };
  compare(record<attention_view>(net, everywhere, nothing), record<attention_view, writes_down_means>(net, everywhere, nothing));
  compare(record<window_view>(net, everywhere, nothing), record<window_view, writes_down_means>(net, everywhere, nothing));
  const auto values = record<value_view>(net, everywhere, nothing), asked = record<value_view, writes_down_means>(net, everywhere, nothing);
  for (std::size_t s = 0; s < values.size(); ++s)
    for (std::size_t l = 0; l < 4; ++l) REQUIRE(asked[s].copies[l].attention == values[s].copies[l].attention);
}

TEST_CASE("evidence: probes are the windows' rows of the named heads, reduced over the evidence rows; a layer may have no probes") {
  const auto net = tiny_model();
  const auto nothing = [](const auto&, const auto&, const auto&) {};
  const auto each = record<every_layer<window_view>>(net, everywhere, nothing);
  const auto some = record<every_layer<probe_view>, writes_down_probes>(net, everywhere, nothing);
  REQUIRE(each.size() == some.size());
  for (std::size_t s = 0; s < each.size(); ++s) {
    REQUIRE(each[s].trace.layers == some[s].trace.layers);
    REQUIRE(some[s].copies.size() == 4);
    for (std::size_t l = 0; l < 4; ++l) {
      CAPTURE(l);
      const evidence_copy &from = each[s].copies[l], &found = some[s].copies[l];
      const auto probes = writes_down_probes<every_layer<probe_view>>{}.probes(static_cast<layer_id>(l));
      const std::size_t active = from.positions.size();
      REQUIRE(found.heads == probes.size());
      REQUIRE(found.positions == from.positions);
      std::vector<float> expected(probes.size() * active);
      for (std::size_t p = 0; p < probes.size(); ++p)
        reduce_queries(&from.attention[probes[p].head * active], from.queries, from.heads * active, probes[p].over,
                       std::span(expected).subspan(p * active, active));
      REQUIRE(found.attention == expected);
    }
  }
}

TEST_CASE("a probe of a head that the model does not have, or of a layer that sees a window, is an error that changes nothing") {
  model_config config = odd_config();
  const auto run = [&](const char* probes) {
    exact backend{execution{}};
    const auto net = load_model(backend, config, random_source(config, dtype::f32));
    workspace<exact> work(net, backend);
    auto seq = begin(net, policy{calibrated_attention{.chosen = calibration::read(probes)}, everywhere, top_k{}, keep_all{}});
    const auto tokens = random_tokens(12, net.config.vocabulary, 5);
    const auto found = error_of([&] { forward(work, seq, tokens, phase::prefill); });
    CHECK(seq.known() == 0);
    return found;
  };
  CHECK(run("2.1.6.last.max@1") == at("sequence: probe of layer 1", {"a head below 6", "found 6"}));
  config.windows.assign(config.layers, 8);
  CHECK(run("2.1.5.last.max@1") ==
        at("sequence: probe of layer 1", {"a layer that sees all tokens", "the last 8"}, error_code::unsupported));
}

TEST_CASE("evidence: every_layer has evidence of each layer but the last, with the layer's number and a lasting memory") {
  const auto net = tiny_model();
  const std::size_t width = net.config.n_kv_heads * net.config.head_dim;
  std::vector<float> gathered;
  record<every_layer<key_view>>(net, stages{{2, 0.6}, {4, 0.5}}, [&](const auto& step, const auto& seq, const auto& session) {
    gathered.resize(session.known());
    REQUIRE(step.copies.size() == 4);
    for (layer_id l = 0; l < 4; ++l) {
      const evidence_copy& copy = step.copies[l];
      REQUIRE(copy.layer == l);
      REQUIRE(copy.positions == step.trace.layers[l].active);
      REQUIRE(copy.memory == gathered);
      for (const position t : copy.positions) gathered[t] += static_cast<float>(l + 1);
      for (std::size_t i = 0; i < copy.positions.size(); ++i)
        REQUIRE(std::ranges::equal(row_of(copy, i, width), as_floats(seq.kv().rows(l).key(seq.kv().slot(l, copy.positions[i])), width)));
    }
  });
}

namespace {

/// The requests for a sequence, step by step, and the results.
template <class Backend>
struct plan_of_steps {
  struct asked {
    std::size_t tokens;
    phase when;
    std::size_t outputs;
  };
  sequence<Backend> seq;
  std::vector<token_id> tokens;
  std::vector<asked> steps;
  trace_recorder trace{};
  std::vector<typename Backend::scalar> logits{};  // of all outputs

  sequence_step<Backend> step(std::size_t i) {
    return {seq, std::span(tokens).subspan(seq.known(), steps[i].tokens), steps[i].when, steps[i].outputs, &trace};
  }
};

/// Eight sequences with different lengths, policies and phases. Chunks, prompts, tokens and drafts meet in one batch.
template <class Backend>
std::vector<plan_of_steps<Backend>> different_sequences(const model<Backend>& net) {
  const auto p = phase::prefill, d = phase::decode;
  std::vector<plan_of_steps<Backend>> all;
  const auto add = [&](auto policy, std::vector<typename plan_of_steps<Backend>::asked> steps) {
    all.push_back(
        {begin(net, policy), random_tokens(900, net.config.vocabulary, static_cast<std::uint32_t>(50 + all.size())), std::move(steps)});
  };
  const stages late{{3, 0.5}, {5, 0.4}};
  add(dense(), {{37, p, 1}, {1, d, 1}, {1, d, 1}, {1, d, 1}, {1, d, 1}});
  add(lazyllm(stages{{2, 0.5}, {4, 0.3}}), {{600, p, 1}, {1, d, 1}, {1, d, 1}, {1, d, 1}, {1, d, 1}});
  add(policy{last_query_attention{}, late, top_k{}, keep_all{}}, {{50, p, 0}, {30, p, 0}, {9, p, 1}, {1, d, 1}, {4, d, 4}});
  add(policy{window_attention{.window = 20}, late, protect{top_k{}, 4, 8}, bounded{.rows = 30}},
      {{100, p, 0}, {33, p, 2}, {1, d, 1}, {3, d, 3}, {1, d, 1}});
  add(policy{value_weighted_attention{}, late, top_p{.mass = 0.9}, none{}}, {{5, p, 1}, {70, p, 0}, {12, p, 12}, {1, d, 1}, {1, d, 1}});
  add(streaming_llm(4, 16), {{40, p, 1}, {1, d, 1}, {1, d, 1}, {12, p, 0}, {1, d, 1}});
  add(policy{key_norm{}, late, top_k{}, keep_all{}}, {{3, p, 3}, {200, p, 1}, {1, d, 1}, {1, d, 0}, {1, d, 1}});
  add(policy{accumulated_attention{}, stages{{1, 0.6}}, top_k{}, keep_all{}}, {{64, p, 1}, {1, d, 1}, {20, p, 1}, {1, d, 1}, {1, d, 1}});
  return all;
}

template <class Backend>
void batches_have_the_bits_of_each_alone(const model<Backend>& net, Backend& backend) {
  workspace<Backend> work(net, backend);
  auto together = different_sequences(net), alone = different_sequences(net);
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    std::vector<sequence_step<Backend>> batch;
    for (auto& s : together) batch.push_back(s.step(i));
    REQUIRE(forward(work, batch));
    std::size_t row = 0;
    for (auto& s : together)
      for (std::size_t k = 0; k < s.steps[i].outputs; ++k) {
        const auto logits = read_logits(work, row++);
        s.logits.insert(s.logits.end(), logits.begin(), logits.end());
      }
    for (auto& s : alone) {
      const sequence_step<Backend> step = s.step(i);
      REQUIRE(forward(work, step));
      const auto logits = read_logits(work, 0, s.steps[i].outputs);
      s.logits.insert(s.logits.end(), logits.begin(), logits.end());
    }
  }
  for (std::size_t s = 0; s < alone.size(); ++s) {
    CAPTURE(s);
    REQUIRE(together[s].trace.steps().size() == alone[s].trace.steps().size());
    for (std::size_t i = 0; i < alone[s].trace.steps().size(); ++i) {
      REQUIRE(together[s].trace.steps()[i].layers == alone[s].trace.steps()[i].layers);
      REQUIRE(together[s].trace.steps()[i].margin == alone[s].trace.steps()[i].margin);
      REQUIRE(together[s].trace.steps()[i].next == alone[s].trace.steps()[i].next);
    }
    REQUIRE(together[s].logits == alone[s].logits);
    REQUIRE(together[s].seq.session().stats() == alone[s].seq.session().stats());
  }
}

}  // namespace

TEST_CASE("eight sequences of different lengths, policies and phases in one batch: each has the bits that it has alone") {
  exact backend{execution{}};
  model_config c = odd_config();
  c.layers = 6;
  c.max_positions = 1000;
  batches_have_the_bits_of_each_alone(load_model(backend, c, random_source(c, dtype::f32)), backend);
}

TEST_CASE("on cpu each sequence of a batch has the bits that it has alone" ON_EVERY_PATH) {
  for (const dtype as : {dtype::f32, dtype::bf16})
    for (const int threads : {1, 3}) {
      cpu backend{tested_execution({.threads = threads, .kv = as})};
      batches_have_the_bits_of_each_alone(load(pocket_model(), backend, as), backend);
    }
}

TEST_CASE("a prompt in chunks of three tokens or more has the bits of one step" ON_EVERY_PATH) {
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    cpu backend{tested_execution({.threads = 2, .kv = as})};
    const auto net = load(pocket_model(), backend, as);
    workspace<cpu> work(net, backend);
    const auto prompt = random_tokens(700, net.config.vocabulary, 9);  // two blocks of rows
    const stages late{{3, 0.5}, {5, 0.4}};
    const auto compare = [&](const auto& policy) {
      generation_options options;
      options.force = random_tokens(4, net.config.vocabulary, 77);
      options.trace_logits = true;
      auto whole = begin(net, policy);
      const generation expected = generate(work, whole, prompt, options);
      // Paths differ in kernels, not in plans. So a small and a large size of chunks are enough for each path.
      const bool all = in_full() || !named_path();
      for (const std::size_t chunk : all ? std::vector<std::size_t>{3, 64, 512, 640, 698} : std::vector<std::size_t>{3, 640}) {
        CAPTURE(chunk);
        options.chunk = chunk;
        auto pieces = begin(net, policy);
        const generation found = generate(work, pieces, prompt, options);
        REQUIRE(found.trace.size() == 4);
        for (std::size_t s = 0; s < 4; ++s) {
          REQUIRE(found.trace[s].layers == expected.trace[s].layers);
          REQUIRE(found.trace[s].logits == expected.trace[s].logits);
        }
        REQUIRE(found.cost.rows == expected.cost.rows);
        REQUIRE(found.share_prompt == expected.share_prompt);
      }
    };
    compare(dense());
    compare(policy{last_query_attention{}, late, top_k{}, keep_all{}});
    compare(policy{window_attention{.window = 20}, late, top_k{}, bounded{.rows = 100}});
  }
}

TEST_CASE("a batch is checked before it begins; a later failure or stop abandons all of it") {
  exact backend{execution{}};
  const auto net = tiny_model(), other = tiny_model();
  workspace<exact> work(net, backend);
  auto one = begin(net, dense()), two = begin(net, lazyllm(stages{{2, 0.5}})), full = begin(net, dense()), others = begin(other, dense());
  full.reserve(3);
  const std::vector<token_id> good{1, 2, 3, 4}, bad{5, 97};
  const auto refused = [&](std::vector<sequence_step<exact>> steps) {
    steps.insert(steps.begin(), {one, good});
    const fault what = error_of([&] { (void)forward(work, steps); });
    CHECK(one.known() == 0);
    CHECK(one.session().known() == 0);
    return what;
  };
  CHECK(refused({{two, bad}}) == at("tokens: token id", {"97", ", found 97"}));
  CHECK(refused({{two, {}}}) == at("session: begin"));
  CHECK(refused({{two, good, phase::prefill, 5}}) == at("session: begin", {"4", ", found 5"}));
  CHECK(refused({{full, good}}) == at("session: begin", {"most 3", ", found 4"}, error_code::no_room));
  CHECK(refused({{others, good}}) == at("sequence: model"));
  CHECK(refused({{two, good}, {two, good}}) == at("sequence: batch", {"of 0"}));

  struct fails final : step_observer {
    bool stop;
    explicit fails(bool s) : stop(s) {}
    bool now = false;
    bool stops() override { return stop && now; }
    void layer_begins(const layer_plan& plan) override {
      now = plan.layer == 3;
      if (now && !stop) throw std::bad_alloc();
    }
  };
  forward(work, one, good, phase::prefill);
  auto fresh = one.fork();
  const auto expected = forward(work, fresh, std::span(good).first(1), phase::decode);
  const std::vector<double> logits(expected.begin(), expected.end());
  for (const bool stop : {true, false}) {
    fails observer(stop);
    const sequence_step<exact> steps[] = {{one, std::span(good).first(1), phase::decode},
                                          {full, std::span(good).first(2), phase::prefill, 0},
                                          {two, good, phase::prefill, 1, &observer}};
    if (stop)
      CHECK(!forward(work, steps));
    else
      CHECK_THROWS_AS((void)forward(work, steps), std::bad_alloc);
    CHECK(one.known() == 4);
    CHECK(full.known() == 0);
    CHECK(two.known() == 0);
    if (!stop) continue;
    auto again = one.fork();
    CHECK(std::ranges::equal(forward(work, again, std::span(good).first(1), phase::decode), logits));
  }
  CHECK(forward(work, std::span<const sequence_step<exact>>{}));

  auto chunked = begin(net, lazyllm(stages{{2, 0.5}}));
  REQUIRE(forward(work, sequence_step<exact>{chunked, good, phase::prefill, 0}));
  CHECK(error_of([&] { read_logits(work, 0); }) == at("workspace: read_logits", {"the 0", ", found 0 to 1"}, error_code::wrong_order));
  REQUIRE(forward(work, sequence_step<exact>{chunked, good, phase::prefill, 3}));
  CHECK(read_logits(work, 1, 2).size() == 2 * 97);
  CHECK_THROWS_AS(read_logits(work, 2, 2), error);
  CHECK_THROWS_AS(read_logits(work, 4, std::size_t{0} - 1), error);
}

TEST_CASE("all steps of a batch finish, or none does") {
  struct wrong_order {  // returns its indices by score instead of ascending
    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const {
      for (std::size_t i = 0; i < c.keep; ++i) kept[i] = static_cast<std::uint32_t>(c.keep - 1 - i);
      return c.keep;
    }
  };
  exact backend{execution{}};
  const auto net = tiny_model();
  workspace<exact> work(net, backend);
  const auto tokens = random_tokens(30, net.config.vocabulary, 4);
  const auto prompt = std::span(tokens).first(20);
  auto first = begin(net, lazyllm({{2, 0.5}})), fresh = begin(net, lazyllm({{2, 0.5}}));
  auto second = begin(net, policy{last_query_attention{}, stages{{2, 0.5}}, wrong_order{}, keep_all{}});
  const sequence_step<exact> both[] = {{first, prompt}, {second, prompt}};
  CHECK(error_of([&] { (void)forward(work, both); }) == at("session: finish", {"20", "selector", "layer 1", ", found 8 after 9"}));
  CHECK(first.known() == 0);
  CHECK(first.session().stats().steps == 0);
  CHECK(first.session().stats().dense_rows == 0);
  CHECK(second.known() == 0);
  const auto again = forward(work, first, prompt, phase::prefill);
  const std::vector<double> logits(again.begin(), again.end());
  const auto expected = forward(work, fresh, prompt, phase::prefill);
  CHECK(std::ranges::equal(logits, expected));
}
