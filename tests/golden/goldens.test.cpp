// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu.hpp>
#include <lazyprune/backend/reference.hpp>
#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/io/trace_file.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/registry/make_session.hpp>
#include <lazyprune/registry/shipped_policies.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../test_data.hpp"
#include "../tested_path.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::tested_execution;

struct golden {
  const char* name;
  policy_spec policy;  // as make.sh has it
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
std::vector<step_trace> run(const model<Backend>& net, const policy_spec& policy, const std::vector<step_trace>& as) {
  Backend backend{tested_execution()};
  workspace<Backend> work(net, backend);
  sequence<Backend> text(net, make_session(policy, {.layers = static_cast<layer_id>(net.config.layers)}, shipped_policies()));
  generation_options options;
  for (std::size_t s = 1; s < as.size(); ++s) options.force.push_back(as[s].tokens.front());
  options.force.push_back(as.back().next);
  options.trace = true;
  options.trace_logits = !as.front().logits.empty();
  return generate(work, text, as.front().tokens, options).trace;
}

std::vector<step_trace> read_golden(const golden& g) {
  return read_trace(source_dir() / "tests/golden" / (std::string(g.name) + ".jsonl"));
}

}  // namespace

TEST_CASE("the reference backend does what it did: kept sets, revived rows, logits") {
  const checkpoint files(pocket_model());
  reference<double> backend{execution{}};
  const auto net = load_model(backend, files.config(), files);
  for (const golden& g : goldens()) {
    CAPTURE(g.name);
    const auto expected = read_golden(g);
    REQUIRE(expected.size() == 8);
    const auto comparison = compare_traces(run(net, g.policy, expected), expected, 1e-9);  // another libm's exp and cos, no more
    CHECK_MESSAGE(comparison.alike, comparison.text());
  }
}

TEST_CASE("the cpu backend does the same wherever float can tell") {
  const checkpoint files(pocket_model());
  cpu backend{tested_execution()};
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const auto net = load_model(backend, files.config(), files, {.as = as});
    for (const golden& g : goldens()) {
      CAPTURE(g.name);
      const auto expected = read_golden(g);
      // The scores follow from sums of up to 256 products through 6 layers: float may be off by 1e-4 of a score. Logits: see
      // tests/model/transformer.test.cpp.
      const auto comparison = compare_traces(run(net, g.policy, expected), expected, 2e-4);
      if (comparison.alike) continue;
      // Only a choice by score that was this close excuses another one, and what follows from it; up to there the logits agree.
      REQUIRE_MESSAGE(comparison.first, comparison.text());
      const auto& first = *comparison.first;
      REQUIRE_MESSAGE((first.what == trace_part::active && *first.layer > 0), comparison.text());
      CHECK_MESSAGE(comparison.logits_before.most <= comparison.tolerance, comparison.text());
      const auto& margin = expected[first.step].margin[*first.layer - 1];
      if (margin)
        CHECK_MESSAGE(std::abs(*margin) < 1e-4, comparison.text());
      else
        CHECK_MESSAGE(comparison.alike, comparison.text());
    }
  }
}
