// SPDX-License-Identifier: MIT
// Tests whole models in the cuda backend.
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/cuda.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/files/trace_file.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tested_device.hpp>

#include "../model/saved_bytes.hpp"
#include "../model/tiny_model.hpp"
#include "../test_data.hpp"
#include "against_reference.hpp"
#include "kept_tokens.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

constexpr auto check_cuda = [](const auto& load, const stages& when) {
  check_against_reference<cuda_backend>(
      load, [](const execution& e) { return !e.exact; }, when);
};

template <class Backend>
std::vector<token_id> answer(const model<Backend>& net, Backend& backend, const std::vector<token_id>& prompt, const stages& when,
                             std::size_t tokens) {
  workspace<Backend> work(net, backend);
  sequence<Backend> text(net, any_session(lazyllm(when), {.layers = static_cast<layer_id>(net.config.layers)}));
  std::vector<token_id> said;
  generation_options options;
  options.on_token = [&](token_id t) {
    said.push_back(t);
    return said.size() < tokens;
  };
  generate(work, text, prompt, options);
  return said;
}

/// Compares the answers of the cuda backend with those of the cpu backend in exact mode, for the first prompt of `prompts` tasks. Prompts
/// are cut to their last `length` tokens; 0: not cut.
void check_answers(const execution& how, std::size_t prompts, std::size_t length) {
  const checkpoint files(pocket_model());
  const auto words = find_tokenizer(files);
  const stages recommended = stages::parse(files.pruning()->stages);
  cpu exact{tested_execution({.kv = dtype::f32, .exact = true})};
  cuda_backend backend(how);
  const auto expected = load_model(exact, files);
  const auto there = load_model(backend, files);
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples/pocket/prompts")) {
    if (entry.path().extension() != ".jsonl" || seen == prompts) continue;
    std::istringstream lines(read_text(entry.path()));
    std::string line;
    std::getline(lines, line);
    const auto record = nlohmann::json::parse(line);
    CAPTURE(record["_id"].get<std::string>());
    auto prompt = words->encode(record["context"].get<std::string>() + " " + record["input"].get<std::string>(), true);
    if (length > 0) prompt.erase(prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(length));
    CHECK(answer(there, backend, prompt, recommended, 4) == answer(expected, exact, prompt, recommended, 4));
    ++seen;
  }
  CHECK(seen == prompts);
}

}  // namespace

// At most 60 % of the choices may be within margins; 48 % are.
TEST_CASE("cuda: on 20 prompts in bf16, each layer keeps the tokens of the reference, unless their scores are within rounding") {
  const unchecked fast;
  const checkpoint files(pocket_model());
  reference<double> exact;
  cuda_backend backend({.kv = dtype::bf16});
  const auto oracle = load_model(exact, files, {.as = dtype::bf16});
  const auto net = load_model(backend, files, {.as = dtype::bf16});
  const kept_tokens kept = compare_kept_tokens(drawn_prompts(files, 20), oracle, net, backend, few_tokens, [&](std::size_t tokens) {
    return path_tolerance(true, dtype::bf16, dtype::bf16, net.config, tokens, true);
  });
  MESSAGE(kept.text());
  CHECK(kept.furthest <= 1);
  CHECK(kept.choices >= 80);  // a short prompt has no choice in the last layers
  CHECK(kept.within_margins <= kept.choices * 6 / 10);
}

TEST_CASE("cuda: a loaded sequence goes on with the bits of the saved one") {
  cuda_backend backend(execution{});
  const model<cuda_backend> net = tiny_model(backend);
  workspace<cuda_backend> work(net, backend);
  const std::vector<token_id> tokens = some_tokens(24);
  const auto kept_session = [] { return any_session(lazyllm({{1, 0.5}, {2, 0.5}}), {.layers = 4}); };
  sequence<cuda_backend> text(net, kept_session());
  generation_options options;
  options.max_new = 3;
  generate(work, text, tokens, options);
  std::string bytes, again;
  byte_writer to = writer_to(bytes), to_again = writer_to(again);
  text.save(backend, to);
  byte_reader from = reader_of(bytes);
  sequence<cuda_backend> loaded = sequence<cuda_backend>::load(backend, net, kept_session(), from);
  loaded.save(backend, to_again);
  CHECK(again == bytes);
  const token_id next[] = {5};
  CHECK(generate(work, loaded, next, options).tokens == generate(work, text, next, options).tokens);
  CHECK(loaded.session().state() == text.session().state());
}

TEST_CASE("cuda: a random model agrees with the reference") { check_random_model(check_cuda); }

TEST_CASE("cuda: random models agree with the reference if attention takes tiles of 128 queries, with wgmma and without") {
  const unchecked fast;
  const few_multiprocessors small;
  const auto check_used = [](auto kernel, std::size_t head_dim) {
    const auto before = times_launched(kernel);
    check_random_model(check_cuda, {4, 2, head_dim});
    if (before) CHECK(*times_launched(kernel) > *before);
  };
  if (device::kernels_have_wgmma()) {
    check_used(device::attend_warpgroups<64, true>, 64);
    check_used(device::attend_warpgroups<128, true>, 128);
  }
  const without_wgmma slower;
  check_used(device::attend_tensor<64, 128, true>, 64);
}

TEST_CASE("cuda: windows, soft caps, GELU, norms after the blocks, LongRoPE and partial RoPE agree with the reference") {
  check_families(check_cuda);
}

TEST_CASE("cuda: the kept tokens agree with those of an independent float64 program" NEEDS("data")) {
  const auto folder = test_data("traces");
  if (folder.empty()) return;
  const unchecked fast;  // the tests above check the same kernels
  std::size_t traces = 0, compared = 0, cut = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    if (!in_full() && (entry.path().stem() == "pocket_hard" || entry.path().stem() == "pocket_prefill_only"))
      continue;  // these are like pocket_paper
    CAPTURE(entry.path().filename().string());
    const auto config = nlohmann::json::parse(read_text(entry.path()));
    const std::string name = config["model"].get<std::string>();
    cuda_backend backend({.exact = true});
    const checkpoint files(name == "../pocket/model" ? pocket_model() : folder.parent_path() / name);
    const auto net = load_model(backend, files, {.as = dtype::f32});
    std::vector<stage> list;
    for (const auto& [after, share] : config["stages"].items())
      list.push_back({static_cast<layer_id>(std::stoul(after)), share.get<double>()});
    std::ranges::sort(list, {}, &stage::after);
    const protect selector{top_k{}, config["keep_first"].get<std::size_t>(), config["keep_last"].get<std::size_t>()};
    const session_options options{.layers = static_cast<layer_id>(net.config.layers)};
    generation_options generation;
    generation.force = config["force_ids"].get<std::vector<token_id>>();
    generation.trace = true;
    workspace<cuda_backend> work(net, backend);
    sequence<cuda_backend> text(net,
                                config["decode"] == "dense"
                                    ? any_session(policy{last_query_attention{}, prompt_only{stages(list)}, selector, keep_all{}}, options)
                                    : any_session(policy{last_query_attention{}, stages(list), selector, keep_all{}}, options));
    const auto result = generate(work, text, config["ids"].get<std::vector<token_id>>(), generation);
    auto lines = entry.path();
    const auto expected = read_trace(lines.replace_extension(".jsonl"));
    REQUIRE(result.trace.size() == expected.size());
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CAPTURE(s);
      // The float sums of several layers round, and the scores with them. A selection with a margin below 1e-4 of the score at the cut may
      // differ, and then all later steps differ.
      if (std::ranges::any_of(expected[s].margin, [](const auto& margin) { return margin && std::abs(*margin) < 1e-4; })) {
        ++cut;
        break;
      }
      CHECK(result.trace[s].tokens == expected[s].tokens);
      CHECK(result.trace[s].layers == expected[s].layers);
      ++compared;
    }
    ++traces;
  }
  MESSAGE(traces << " traces, " << compared << " steps compared, all agree; " << cut << " traces cut at a choice too close to call");
  CHECK(traces > 2 * cut);
}

TEST_CASE("cuda: shortened bundled prompts, with all checks on, have the answers of the cpu backend") {
  check_answers({.exact = true}, 3, 256);
}

TEST_CASE("cuda: whole bundled prompts on tensor cores have the answers of the cpu backend") {
  const unchecked fast;
  check_answers({.kv = dtype::bf16}, 5, 0);
}
