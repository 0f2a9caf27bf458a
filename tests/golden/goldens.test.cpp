// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/checkpoint_weights.hpp>
#include <lazyprune/files/trace_file.hpp>
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/registry/make_session.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../model/followed.hpp"
#include "../path_tolerance.hpp"
#include "../policies.hpp"
#include "../test_data.hpp"
#include "../tested_path.hpp"

namespace {

using namespace lazyprune;
using namespace lazyprune_test;

struct golden {
  std::string name;
  policy_spec policy;  // as in make.sh
};

std::vector<golden> goldens() {
  return {
      {"dense", {.preset = "dense"}},
      {"lazyllm", {.stages = "3:0.3,5:0.1"}},
      {"protected", {.stages = "2:0.5,4:0.3,5:0.1", .keep_first = 4, .keep_last = 8}},
      {"prompt_only", {.stages = "2:0.5", .decode = "dense"}},
      {"static", {.preset = "static", .stages = "2:0.3"}},
      {"bounded", {.stages = "2:0.4,4:0.5", .scorer = "value_weighted_attention", .store = "bounded:rows=60"}},
      {"window", {.stages = "2:0.4", .scorer = "window_attention:window=8", .selector = "blocks:size=8"}},
      {"accumulated", {.schedule = "every:n=2,share=0.5", .scorer = "accumulated_attention", .selector = "top_p:mass=0.95"}},
      {"adaptive", {.schedule = "adaptive:from=2,every=2,mass=0.8,least=0.1"}},
      {"random", {.preset = "random", .stages = "0:0.6"}},
  };
}

template <class Backend>
std::vector<step_trace> run(const model<Backend>& net, any_session session, const std::vector<step_trace>& as, Backend& backend) {
  workspace<Backend> work(net, backend);
  sequence<Backend> text(net, std::move(session));
  generation_options options;
  for (std::size_t s = 1; s < as.size(); ++s) options.force.push_back(as[s].tokens.front());
  options.force.push_back(as.back().next);
  options.trace = true;
  options.trace_logits = !as.front().logits.empty();
  return generate(work, text, as.front().tokens, options).trace;
}

template <class Backend>
std::vector<step_trace> run(const model<Backend>& net, const policy_spec& policy, const std::vector<step_trace>& as, Backend& backend) {
  return run(net, make_session(policy, {.layers = static_cast<layer_id>(net.config.layers)}, policies()), as, backend);
}

std::vector<step_trace> read_golden(const golden& g) { return read_trace(source_dir() / "tests/golden" / (g.name + ".jsonl")); }

double root_mean_square(std::span<const double> numbers) {
  double sum = 0;
  for (const double x : numbers) sum += x * x;
  return std::sqrt(sum / static_cast<double>(numbers.size()));
}

/// Returns the largest spread over all heads and all layers that may select: see path_tolerance.hpp.
double spread_of_attention(const checkpoint& files, const std::vector<step_trace>& as) {
  reference<double> exact;
  const auto net = load_model(exact, files);
  score_log log;
  const policy everything{followed(last_query_attention{}, log), stages{{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {5, 1.0}}, top_k{},
                          keep_all{}};
  run(net, any_session(everything, {.layers = static_cast<layer_id>(net.config.layers)}), as, exact);
  return std::ranges::max_element(log, {}, &scored::spread)->spread;
}

/// Checks that two traces are equal, or that the first difference is a selection by close scores. The logits before it must agree. Later
/// steps may differ. `close(layers)`: the largest margin, after this many layers, at which rounding may change the selection.
template <class Close>
void check_agreement(const trace_comparison& comparison, const std::vector<step_trace>& expected, Close close) {
  if (comparison.alike) return;
  REQUIRE_MESSAGE(comparison.first, comparison.text());
  const auto& first = *comparison.first;
  REQUIRE_MESSAGE((first.what == trace_field::active && *first.layer > 0), comparison.text());
  CHECK_MESSAGE(comparison.logits_before.most <= comparison.tolerance, comparison.text());
  const auto& margin = expected[first.step].margin[*first.layer - 1];
  CHECK_MESSAGE((margin && std::abs(*margin) < close(*first.layer)), comparison.text());
}

}  // namespace

TEST_CASE("the reference backend reproduces the golden traces: kept tokens, revived rows, logits") {
  const checkpoint files(pocket_model());
  reference<double> backend{execution{}};
  const auto net = load_model(backend, files);
  for (const golden& g : goldens()) {
    CAPTURE(g.name);
    const auto expected = read_golden(g);
    REQUIRE(expected.size() == 8);
    const auto comparison =
        compare_traces(run(net, g.policy, expected, backend), expected, 1e-9);  // each libm rounds exp and cos in its own way
    CHECK_MESSAGE(comparison.alike, comparison.text());
  }
}

TEST_CASE("the cpu backend reproduces the golden traces within float's precision" ON_EVERY_PATH) {
  const checkpoint files(pocket_model());
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    cpu backend{tested_execution({.kv = dtype::f32, .exact = true})};
    const auto net = load_model(backend, files, {.as = as});
    for (const golden& g : goldens()) {
      CAPTURE(g.name);
      const auto expected = read_golden(g);
      // Scores depend on sums of up to 256 products, through 6 layers. In float they may be off by 1e-4 of a score. For the logits see
      // tests/model/transformer.test.cpp.
      check_agreement(compare_traces(run(net, g.policy, expected, backend), expected, 2e-4), expected, [](std::size_t) { return 1e-4; });
    }
  }
}

TEST_CASE("a path's rounding changes logits and selections within its tolerance" ON_EVERY_PATH) {
  const checkpoint files(pocket_model());
  const execution how = tested_execution({.kv = dtype::bf16});
  cpu backend{how};
  const auto net = load_model(backend, files, {.as = dtype::bf16});
  const auto dense = read_golden(goldens().front());
  const path_tolerance allowed(how, dtype::bf16, net.config, dense.front().tokens.size() + dense.size());
  const double logits = allowed.logits(root_mean_square(dense.front().logits)), spread = spread_of_attention(files, dense);
  for (const golden& g : goldens()) {
    if (g.policy.selector == "blocks:size=8") continue;  // a trace has the margins of tokens, but not of blocks
    CAPTURE(g.name);
    const auto expected = read_golden(g);
    const auto comparison = compare_traces(run(net, g.policy, expected, backend), expected, logits);
    check_agreement(comparison, expected, [&](std::size_t layers) { return -std::expm1(-allowed.scores(layers, spread)); });
    // The comparison ends at a different selection, because later steps have other tokens. tests/model/transformer.test.cpp has runs that
    // are made to go on with the same tokens.
    MESSAGE(g.name << ": " << comparison.agreed << " of " << expected.size() << " steps alike");
    if (g.policy.preset == "dense") CHECK(comparison.logits.most > logits / 100);  // the path does round
  }
}
