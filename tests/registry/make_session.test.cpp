// SPDX-License-Identifier: MIT
#include <lazyprune/registry/make_session.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <lazyprune/lazyprune.hpp>
#include "policies.hpp"

using namespace lazyprune;

namespace {

/// What a session planned: active tokens, rows and their sources, layer by layer.
struct planned {
  std::vector<position> active, rows;
  std::vector<row_source> sources;
  std::vector<spill> spills;
  friend bool operator==(const planned&, const planned&) = default;
};

constexpr layer_id layers = 8;
constexpr std::size_t heads = 4, kv_heads = 2, head_dim = 4;

float noise(std::size_t i) {
  const double x = std::sin(static_cast<double>(i) * 12.9898) * 43758.5453;
  return static_cast<float>(x - std::floor(x));
}

/// An engine without a model: its evidence is noise, the same for every session that asks for it.
std::vector<planned> drive(any_session session) {
  std::vector<planned> all;
  std::vector<float> numbers;
  for (const std::size_t tokens : {40u, 1u, 1u, 5u, 1u}) {
    auto step = session.begin(tokens, tokens > 1 ? phase::prefill : phase::decode);
    for (layer_id l = 0; l < layers; ++l) {
      const layer_plan& plan = step.enter(l);
      planned now{
          {plan.active.begin(), plan.active.end()}, {plan.rows.begin(), plan.rows.end()}, {plan.sources.begin(), plan.sources.end()}, {}};
      const std::size_t active = plan.active.size(), window = std::max<std::size_t>(step.window(), 1);
      numbers.resize(2 * window * heads * active + active * kv_heads * head_dim);
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = noise(i + 1000 * l + 77 * session.known());
      const attention_view attention{numbers.data(), heads, active, plan.active};
      switch (step.wants()) {
        case evidence_kind::attention:
          step.leave(evidence(attention));
          break;
        case evidence_kind::window:
          step.leave(evidence(window_view{numbers.data(), window, heads, active, plan.active}));
          break;
        case evidence_kind::keys:
          step.leave(evidence(key_view{numbers.data(), kv_heads, head_dim, kv_heads * head_dim, plan.active}));
          break;
        case evidence_kind::values:
          step.leave(evidence(value_view{attention, numbers.data() + heads * active, kv_heads, head_dim, kv_heads * head_dim}));
          break;
        default:
          step.leave();
      }
      now.spills.assign(step.spills().begin(), step.spills().end());
      all.push_back(std::move(now));
    }
    step.finish();
  }
  return all;
}

template <class Policy>
std::vector<planned> expected(Policy p) {
  return drive(any_session(std::move(p), {.layers = layers}));
}

std::vector<planned> made(const policy_spec& spec) { return drive(make_session(spec, {.layers = layers}, policies())); }

policy_spec preset(const char* name) {
  policy_spec spec;
  spec.preset = name;
  return spec;
}

}  // namespace

TEST_CASE("the presets by name are those of policy/presets.hpp") {
  CHECK(made({}) == expected(lazyllm(layers)));
  CHECK(made(preset("lazyllm")) == expected(lazyllm(layers)));
  CHECK(made(preset("dense")) == expected(dense()));
  CHECK(made(preset("static")) == expected(static_pruning(lazyllm_stages(layers))));
  CHECK(made(preset("random")) == expected(random_drop(0.7)));
  CHECK(made(preset("streaming")) == expected(streaming_llm()));

  policy_spec few = preset("streaming");  // short enough to matter here
  few.schedule = "budget:after=0,tokens=12";
  CHECK(made(few) == expected(streaming_llm(4, 8)));
  CHECK(made(few) != made(preset("dense")));
}

TEST_CASE("every scorer, schedule, selector and store makes the session of its policy") {
  const stages when{{2, 0.5}, {5, 0.4}};
  const auto spec_of = [](const char* scorer, const char* selector, const char* store) {
    policy_spec spec;
    spec.stages = "2:0.5,5:0.4";
    spec.scorer = scorer;
    spec.selector = selector;
    spec.store = store;
    return spec;
  };
  CHECK(made(spec_of("last_query_attention:over=max", "top_k", "keep_all")) ==
        expected(policy{last_query_attention{head_reduction::max}, when, top_k{}, keep_all{}}));
  CHECK(made(spec_of("accumulated_attention", "top_p:mass=0.8", "bounded:rows=6")) ==
        expected(policy{accumulated_attention{}, when, top_p{0.8}, bounded{6}}));
  CHECK(made(spec_of("window_attention:window=3,kernel=1", "blocks:size=4", "none")) ==
        expected(policy{window_attention{3, 1, pooling::max}, when, blocks{4}, none{}}));
  CHECK(made(spec_of("prompt_window_attention:window=3,kernel=1", "top_k", "none")) ==
        expected(policy{prompt_window_attention{3, 1, pooling::max}, when, top_k{}, none{}}));
  CHECK(made(spec_of("value_weighted_attention", "threshold:score=0.6", "keep_all")) ==
        expected(policy{value_weighted_attention{}, when, threshold{0.6f}, keep_all{}}));
  CHECK(made(spec_of("key_norm", "top_k", "keep_all")) == expected(policy{key_norm{}, when, top_k{}, keep_all{}}));
  CHECK(made(spec_of("recency", "top_k", "none")) == expected(policy{recency{}, when, top_k{}, none{}}));
  CHECK(made(spec_of("random:seed=3", "top_k", "keep_all")) == expected(policy{random_score{3}, when, top_k{}, keep_all{}}));

  const auto scheduled = [](const char* schedule) {
    policy_spec spec;
    spec.schedule = schedule;
    return spec;
  };
  const auto under = [](auto schedule) { return expected(policy{last_query_attention{}, schedule, top_k{}, keep_all{}}); };
  CHECK(made(scheduled("every:n=2,share=0.5")) == under(every{2, 0.5}));
  CHECK(made(scheduled("linear:from=1,share=0.2")) == under(linear{1, 0.2}));
  CHECK(made(scheduled("cosine:share=0.2")) == under(cosine{0, 0.2}));
  CHECK(made(scheduled("budget:after=3,tokens=9")) == under(budget({.after = 3, .tokens = 9})));
  CHECK(made(scheduled("budget:after=3,cost=0.6")) == under(budget({.after = 3, .cost = 0.6})));
  CHECK(made(scheduled("adaptive:mass=0.5")) == under(adaptive{.mass = 0.5}));
}

TEST_CASE("protected tokens and a dense decode are around whatever is chosen") {
  policy_spec spec;
  spec.stages = "2:0.3";
  spec.keep_first = 3;
  spec.keep_last = 5;
  CHECK(made(spec) == expected(policy{last_query_attention{}, stages{{2, 0.3}}, protect{top_k{}, 3, 5}, keep_all{}}));
  spec.decode = "dense";
  CHECK(made(spec) == expected(policy{last_query_attention{}, prompt_only{stages{{2, 0.3}}}, protect{top_k{}, 3, 5}, keep_all{}}));
  spec.decode = "only";
  CHECK(made(spec) == expected(policy{last_query_attention{}, by_phase{stages{}, stages{{2, 0.3}}}, protect{top_k{}, 3, 5}, keep_all{}}));
  spec.decode = "dense";
  spec.stages.reset();
  spec.schedule = "adaptive:mass=0.4";
  CHECK(made(spec) == expected(policy{last_query_attention{}, prompt_only{adaptive{.mass = 0.4}}, protect{top_k{}, 3, 5}, keep_all{}}));
}

TEST_CASE("the options reach the session, and mistakes are those of the spec") {
  any_session session = make_session({}, {.layers = 3, .max_tokens = 4}, policies());
  CHECK(session.layers() == 3);
  CHECK_THROWS_AS(session.begin(5, phase::prefill), error);
  CHECK_THROWS_WITH_AS(make_session(preset("nothing"), {.layers = 3}, policies()),
                       "--policy: expected one of lazyllm, static, random, streaming, dense, found nothing", error);
}
