// SPDX-License-Identifier: MIT
#include <lazyprune/registry/make_session.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include <fault.hpp>
#include <lazyprune/lazyprune.hpp>
#include "chunk_depths.hpp"
#include "policies.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::depth_of_chunks, lazyprune_test::depths_of_chunks;
using lazyprune_test::error_of;

namespace {

/// One layer's plan, and the spills after this layer.
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

/// Runs five steps of the session, like an engine but without a model. The evidence is pseudo-random, and the same for every session.
/// Returns the plans and spills of all layers.
std::vector<planned> drive(any_session session) {
  std::vector<planned> all;
  std::vector<float> numbers;
  for (const std::size_t tokens : {40u, 1u, 1u, 5u, 1u}) {
    auto step = session.begin({tokens, tokens > 1 ? phase::prefill : phase::decode});
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
  CHECK(made(preset("lazyllm_blocks")) == expected(lazyllm_blocks(lazyllm_stages(layers))));
  CHECK(made(preset("dense")) == expected(dense()));
  CHECK(made(preset("static")) == expected(static_pruning(lazyllm_stages(layers))));
  CHECK(made(preset("random")) == expected(random_drop(0.7)));
  CHECK(made(preset("streaming")) == expected(streaming_llm()));
  CHECK(made(preset("fastv")) == expected(fastv()));
  CHECK(made(preset("pyramid_drop")) == expected(pyramid_drop(layers)));
  CHECK(made(preset("tova")) == expected(tova(layers / 2)));
  CHECK(made(preset("pyramid_kv")) == expected(pyramid_kv()));
  CHECK(made(preset("prompt_distill")) == expected(prompt_distill(layers * 2 / 5)));

  policy_spec few = preset("streaming");  // a window so short that it prunes these prompts
  few.schedule = "budget:after=0,tokens=12";
  CHECK(made(few) == expected(streaming_llm(4, 8)));
  CHECK(made(few) != made(preset("dense")));
  few = preset("tova");
  few.schedule = "budget:after=2,tokens=12";
  CHECK(made(few) == expected(tova(2, 12)));
  few.preset = "prompt_distill";
  CHECK(made(few) == expected(prompt_distill(2, 12)));
}

TEST_CASE("every scorer, schedule, selector and store can be chosen by its text") {
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
  CHECK(made(spec_of("given_scores:scores=1/0.5/2", "top_k", "none")) ==
        expected(policy{given_scores{position_scores({1.0f, 0.5f, 2.0f})}, when, top_k{}, none{}}));

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

TEST_CASE("keep_first and keep_last protect tokens, and decode limits the schedule to a phase") {
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

TEST_CASE("keep protects tokens, and least_tokens limits the schedule to long sequences") {
  const stages when{{2, 0.3}, {5, 0.5}};
  const protect spans{top_k{}, 0, 2, {{7, 11}, {30, 30}}};
  const auto under = [&](auto schedule) { return expected(policy{last_query_attention{}, schedule, spans, keep_all{}}); };
  policy_spec spec{.stages = "2:0.3,5:0.5", .keep_last = 2, .keep = "30,7-11"};
  CHECK(made(spec) == under(when));
  for (const planned& layer : made(spec))
    for (const position stays : {7u, 8u, 9u, 10u, 11u, 30u}) CHECK(std::ranges::binary_search(layer.active, stays));
  CHECK(made(spec) != made({.stages = "2:0.3,5:0.5", .keep_last = 2}));

  // The five steps end with 40, 41, 42, 47 and 48 known tokens. The first and the fourth step are prefills.
  for (const std::size_t least : {1u, 40u, 41u, 43u, 48u, 49u}) {
    CAPTURE(least);
    spec.least_tokens = least;
    spec.decode = "same";
    CHECK(made(spec) == under(at_least{when, least}));
    CHECK((made(spec) == under(when)) == (least <= 40));
    spec.decode = "dense";
    CHECK(made(spec) == under(prompt_only{at_least{when, least}}));
    spec.decode = "only";
    CHECK(made(spec) == under(by_phase{stages{}, at_least{when, least}}));
    CHECK((made(spec) == expected(dense())) == (least == 49));
    policy_spec adapting = spec;
    adapting.stages.reset();
    adapting.schedule = "adaptive:mass=0.4";
    adapting.decode = "same";
    CHECK(made(adapting) == under(at_least{adaptive{.mass = 0.4}, least}));
  }
}

TEST_CASE("the options reach the session, and errors in the flags are reported") {
  any_session session = make_session({}, {.layers = 3, .max_tokens = 4}, policies());
  CHECK(session.layers() == 3);
  CHECK_THROWS_AS(session.begin({5, phase::prefill}), error);
  CHECK(error_of([&] { make_session(preset("nothing"), {.layers = 3}, policies()); }) ==
        at("--policy", {"lazyllm, lazyllm_blocks, static, random, streaming, fastv, pyramid_drop, tova, pyramid_kv, prompt_distill, dense",
                        ", found nothing"}));
}

namespace {

/// The tokens in the plans of the steps over a prompt. If the prompt is read in chunks, each set is the union over the chunks.
struct record {
  std::vector<std::set<position>> active, rows, revived;  // by layer
  friend bool operator==(const record&, const record&) = default;
};

/// An engine whose evidence depends only on the layer, the query's position and the token's position, like the evidence of a model.
class engine_of_noise {
 public:
  explicit engine_of_noise(any_session session) : session_(std::move(session)) {}

  const any_session& session() const { return session_; }
  layer_id last_depth() const { return depth_; }

  void step(const step_request& request, record& into) {
    auto step = session_.begin(request);
    depth_ = step.layers();
    into.active.resize(layers);
    into.rows.resize(layers);
    into.revived.resize(layers);
    for (layer_id l = 0; l < step.layers(); ++l) {
      const layer_plan plan = step.enter(l);
      into.active[l].insert(plan.active.begin(), plan.active.end());
      into.rows[l].insert(plan.rows.begin(), plan.rows.end());
      for (std::size_t i = 0; i < plan.rows.size(); ++i)
        if (plan.sources[i].from == row_source::origin::stored) into.revived[l].insert(plan.rows[i]);
      step.leave(look(plan, step.wants(), step.window(), step.probes()));
    }
    step.finish();
  }

 private:
  evidence look(const layer_plan& plan, evidence_kind kind, std::size_t window, std::span<const head_probe> probes) {
    if (plan.rows.empty()) return {};  // a chunk whose tokens all wait for the next step
    const std::size_t n = plan.active.size();
    const std::size_t queries = kind == evidence_kind::window || kind == evidence_kind::probes ? window : 1;
    probabilities_.assign(queries * heads * n, 0.0f);
    for (std::size_t q = 0; q < queries; ++q)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < n; ++i) {
          const position query = plan.rows[plan.rows.size() - queries + q], token = plan.active[i];
          if (token <= query) probabilities_[(q * heads + h) * n + i] = noise(token + 300 * (query + 300 * (h + heads * plan.layer)));
        }
    numbers_.resize(n * kv_heads * head_dim);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      const std::size_t size = kv_heads * head_dim;
      numbers_[i] = noise(i % size + size * (plan.active[i / size] + 300 * plan.layer));
    }
    const attention_view attention{probabilities_.data(), heads, n, plan.active};
    switch (kind) {
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{probabilities_.data(), queries, heads, n, plan.active};
      case evidence_kind::probes:
        numbers_.resize(probes.size() * n);
        for (std::size_t p = 0; p < probes.size(); ++p)
          reduce_queries(&probabilities_[probes[p].head * n], queries, heads * n, probes[p].over, std::span(numbers_).subspan(p * n, n));
        return probe_view{numbers_.data(), probes.size(), n, plan.active};
      case evidence_kind::keys:
        return key_view{numbers_.data(), kv_heads, head_dim, kv_heads * head_dim, plan.active};
      case evidence_kind::values:
        return value_view{attention, numbers_.data(), kv_heads, head_dim, kv_heads * head_dim};
      default:
        return {};
    }
  }

  any_session session_;
  layer_id depth_ = 0;
  std::vector<float> probabilities_, numbers_;
};

}  // namespace

TEST_CASE("for every policy, the plans of a prompt in chunks are those of the same prompt in one step") {
  std::mt19937 random(5);
  for (const depth_of_chunks& row : depths_of_chunks) {
    CAPTURE(std::string(row.flags));
    const auto made = [&] { return engine_of_noise(make_session(parse_policy(row.flags), {.layers = layers}, policies())); };
    engine_of_noise whole = made();
    record prompt;
    whole.step({50, phase::prefill}, prompt);
    std::vector<record> later(4);
    for (record& r : later) whole.step({1, phase::decode}, r);
    record turn;
    whole.step({20, phase::prefill, 3}, turn);

    for (int cut = 0; cut < 12; ++cut) {
      CAPTURE(cut);
      engine_of_noise pieces = made();
      const auto read = [&](std::size_t tokens, std::size_t outputs, record& into) {
        std::size_t left = tokens;
        for (; left > outputs && random() % 4 != 0;) {
          const std::size_t piece = 1 + random() % (left - outputs);
          pieces.step({piece, phase::prefill, 0}, into);
          REQUIRE(pieces.last_depth() == row.prefill);
          left -= piece;
        }
        pieces.step({left, phase::prefill, outputs}, into);
      };
      record seen;
      read(50, 1, seen);
      REQUIRE(seen == prompt);
      for (const record& r : later) {
        record now;
        pieces.step({1, phase::decode}, now);
        REQUIRE(now == r);
      }
      record second;
      read(20, 3, second);
      REQUIRE(second == turn);
      statistics stats = pieces.session().stats();
      REQUIRE(stats.steps >= whole.session().stats().steps);
      stats.steps = whole.session().stats().steps;
      REQUIRE(stats == whole.session().stats());
    }
    engine_of_noise in_decoding = made();
    CHECK(in_decoding.session().chunk_layers(phase::prefill) == row.prefill);
    CHECK(in_decoding.session().chunk_layers(phase::decode) == row.decode);
    record none;
    in_decoding.step({3, phase::decode, 0}, none);
    CHECK(in_decoding.last_depth() == row.decode);
  }
}

TEST_CASE("the table in chunk_depths.hpp has every part that a flag can choose") {
  std::string all;
  for (const depth_of_chunks& row : depths_of_chunks) all += std::string(" ") + row.flags + " ";
  const auto named = [&](const auto& kind) {
    for (const auto& entry : kind.entries()) {
      CAPTURE(std::string(entry.name));
      CHECK((entry.name == "keep_all" || entry.name == "top_k" || all.find(" " + std::string(entry.name)) != all.npos));
    }
  };
  named(policies().scorers());
  named(policies().schedules());
  named(policies().selectors());
  named(policies().stores());
  for (const policy_preset& preset : policies().presets()) CHECK(all.find(" " + preset.name + " ") != all.npos);
}
