// SPDX-License-Identifier: MIT
#include <lazyprune/registry/policy_parts.hpp>

#include <doctest/doctest.h>

#include <fault.hpp>
#include <lazyprune/lazyprune.hpp>
#include "policies.hpp"
#include "registry/spec_with.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;

namespace {

policy_parts parts_of(const policy_spec& spec, layer_id layers) { return lazyprune::parts_of(spec, layers, policies()); }
std::string text(const policy_spec& spec, layer_id layers) { return lazyprune::text(spec, layers, policies()); }

/// Returns whether `chosen` holds a part of the same type and with the same values as `expected`.
template <class Any, class Policy>
bool holds(const Any& chosen, const Policy& expected) {
  const auto* policy = chosen.template target<Policy>();
  return policy && *policy == expected;
}

const std::string rest =
    " --scorer last_query_attention:over=mean --selector top_k --store keep_all --keep-first 0 --keep-last 0 --decode same";

/// The error of parts_of for a model of 6 layers.
fault fault_of(const policy_spec& spec) {
  return error_of([&] { parts_of(spec, 6); });
}

}  // namespace

TEST_CASE("without flags the policy is lazyllm, with the stages that the paper draws") {
  CHECK(text({}, 32) == "--stages 9:0.7,19:0.7,28:0.7" + rest);
  CHECK(text(with({{"--policy", "lazyllm"}}), 6) == "--stages 1:0.7,3:0.7,5:0.7" + rest);
  const policy_parts parts = parts_of({}, 32);
  CHECK(holds(parts.scorer, last_query_attention{}));
  CHECK(holds(parts.schedule, stages{{9, 0.7}, {19, 0.7}, {28, 0.7}}));
  CHECK(holds(parts.selector, top_k{}));
  CHECK(holds(parts.store, keep_all{}));
  CHECK(parts.when == pruned_steps::all);
}

TEST_CASE("every part and parameter can be given, and parameters that are not given have their defaults") {
  const auto scorer = [](const char* text) { return parts_of(with({{"--scorer", text}}), 8).scorer; };
  CHECK(holds(scorer("last_query_attention:over=max"), last_query_attention{head_reduction::max}));
  CHECK(holds(scorer("accumulated_attention"), accumulated_attention{}));
  CHECK(holds(scorer("accumulated_attention:since=step,over=max"), accumulated_attention{layer_reduction::max, memory_span::step}));
  CHECK(holds(scorer("window_attention"), window_attention{}));
  CHECK(holds(scorer("window_attention:window=8,kernel=5,pool=mean"), window_attention{8, 5, pooling::mean}));
  CHECK(holds(scorer("prompt_window_attention"), prompt_window_attention{}));
  CHECK(holds(scorer("prompt_window_attention:window=8,kernel=5,pool=mean"), prompt_window_attention{8, 5, pooling::mean}));
  CHECK(holds(scorer("value_weighted_attention"), value_weighted_attention{}));
  CHECK(holds(scorer("value_weighted_attention:norm=l1"), value_weighted_attention{vector_norm::l1}));
  CHECK(holds(scorer("key_norm"), key_norm{}));
  CHECK(holds(scorer("recency"), recency{}));
  CHECK(holds(scorer("random:seed=18446744073709551615"), random_score{18446744073709551615u}));
  CHECK(holds(scorer("given_scores"), given_scores{}));
  CHECK(holds(scorer("given_scores:scores=0.5/-1/1e+20"), given_scores{position_scores({0.5f, -1.0f, 1e20f})}));

  const auto schedule = [](const char* text) { return parts_of(with({{"--schedule", text}, {"--scorer", "recency"}}), 8).schedule; };
  CHECK(holds(schedule("every:n=2,share=0.5"), every{2, 0.5}));
  CHECK(holds(schedule("linear:share=0.5"), linear{0, 0.5}));
  CHECK(holds(schedule("linear:from=3,share=0.5"), linear{3, 0.5}));
  CHECK(holds(schedule("cosine:from=1,share=0.25"), cosine{1, 0.25}));
  CHECK(holds(schedule("budget:after=0,tokens=512"), budget({.after = 0, .tokens = 512})));
  CHECK(holds(schedule("budget:after=7,cost=0.9"), budget({.after = 7, .cost = 0.9})));
  CHECK(holds(schedule("adaptive"), adaptive{}));
  CHECK(holds(schedule("adaptive:from=2,every=3,mass=0.8,least=0.2"), adaptive{2, 3, 0.8, 0.2}));

  const auto selector = [](const char* text) { return parts_of(with({{"--selector", text}}), 8).selector; };
  CHECK(holds(selector("top_k"), top_k{}));
  CHECK(holds(selector("top_p:mass=0.9"), top_p{0.9}));
  CHECK(holds(selector("threshold:score=-0.5"), threshold{-0.5f}));
  CHECK(holds(selector("blocks"), blocks{}));
  CHECK(holds(selector("blocks:size=32"), blocks{32}));

  const auto store = [](const char* text) { return parts_of(with({{"--store", text}}), 8).store; };
  CHECK(holds(store("keep_all"), keep_all{}));
  CHECK(holds(store("bounded:rows=0"), bounded{0}));
  CHECK(holds(store("none"), none{}));

  const policy_parts parts = parts_of(with({{"--keep-first", "4"}, {"--keep-last", "9"}, {"--decode", "dense"}}), 8);
  CHECK(parts.keep_first == 4);
  CHECK(parts.keep_last == 9);
  CHECK(parts.when == pruned_steps::prefill);
  CHECK(parts.keep == position_spans{});
  CHECK(parts.least_tokens == 0);
  CHECK(parts_of(with({{"--decode", "only"}}), 8).when == pruned_steps::decode);
  CHECK(parts_of(with({{"--decode", "kept"}}), 8).when == pruned_steps::prefill_sets);
  const policy_parts few = parts_of(with({{"--keep", "900-930,0-63"}, {"--least-tokens", "512"}}), 8);
  CHECK(few.keep == position_spans{{0, 63}, {900, 930}});
  CHECK(few.least_tokens == 512);
}

TEST_CASE("the text of a policy reads back as the same policy") {
  for (const policy_spec& spec : {
           with({}),
           with({{"--policy", "static"}}),
           with({{"--policy", "random"}}),
           with({{"--policy", "streaming"}}),
           with({{"--policy", "dense"}}),
           with({{"--stages", "3:0.1,5:0.30000000000000004"}}),
           with({{"--policy", "random"}, {"--stages", "0:0.5,2:1"}, {"--scorer", "random:seed=7"}}),
           with({{"--schedule", "every:share=0.5,n=2"}, {"--scorer", "accumulated_attention:over=max"}, {"--store", "bounded:rows=64"}}),
           with({{"--schedule", "linear:share=0.3"}, {"--selector", "top_p:mass=0.95"}, {"--keep-first", "4"}}),
           with({{"--schedule", "cosine:share=0.3,from=2"}, {"--selector", "threshold:score=0.001"}, {"--keep-last", "16"}}),
           with({{"--schedule", "budget:after=3,tokens=100"}, {"--scorer", "window_attention:window=4"}}),
           with({{"--schedule", "budget:after=3,cost=0.6"}, {"--scorer", "value_weighted_attention"}, {"--decode", "dense"}}),
           with({{"--stages", "1:0.5"}, {"--scorer", "prompt_window_attention:kernel=3"}, {"--decode", "only"}}),
           with({{"--schedule", "adaptive:mass=0.5"}, {"--scorer", "key_norm"}, {"--selector", "blocks"}}),
           with({{"--keep", "900-930,7,0-6"}, {"--least-tokens", "512"}, {"--decode", "dense"}}),
           with({{"--policy", "streaming"}, {"--keep", "0-4294967295"}}),
           with({{"--policy", "static"}, {"--least-tokens", "18446744073709551615"}}),
       }) {
    const policy_parts parts = parts_of(spec, 6);
    CAPTURE(parts.text);
    CHECK(text(typed(parts.text), 6) == parts.text);
    CHECK(text(parse_policy(parts.text), 6) == parts.text);
  }
}

TEST_CASE("for any number of layers, the text of a preset reads back as the same policy") {
  for (const auto& preset : policies().presets())
    for (const layer_id layers : {1u, 2u, 3u, 6u, 32u}) {
      const std::string all = text({.preset = preset.name}, layers);
      CAPTURE(all);
      CHECK(text(parse_policy(all), layers) == all);
      if (layers == 1 && preset.name != "random" && preset.name != "streaming") CHECK(all == "--policy dense");
    }
}

TEST_CASE("a preset whose schedule never prunes the model is dense there") {
  policy_registry mine = policies();
  mine.add_preset("rare", "", [](layer_id) { return policy{key_norm{}, every{4, 0.5}, top_k{}, none{}}; });
  mine.add_preset("without_target", "", [](layer_id) { return policy{key_norm{}, budget{}, top_k{}, none{}}; });
  for (const layer_id layers : {1u, 2u, 4u, 5u}) {
    CHECK(lazyprune::text({.preset = "without_target"}, layers, mine) == "--policy dense");
    const std::string rare = lazyprune::text({.preset = "rare"}, layers, mine);
    CHECK((rare == "--policy dense") == (layers <= 4));
    CHECK(lazyprune::text(parse_policy(rare), layers, mine) == rare);
  }
  CHECK(lazyprune::text({.preset = "rare", .stages = "2:0.5"}, 4, mine).starts_with("--stages 2:0.5 --scorer key_norm "));
}

TEST_CASE("the name custom stands for no preset") {
  for (const policy_spec& spec : {with({}), with({{"--scorer", "key_norm"}}), with({{"--stages", "3:0.5"}, {"--decode", "only"}})}) {
    policy_spec named = spec;
    named.preset = custom_policy;
    CHECK(text(named, 8) == text(spec, 8));
  }
}

TEST_CASE("keep and least_tokens are in the text only if they have an effect") {
  CHECK(text(with({{"--keep", "5-6,1-4"}, {"--least-tokens", "12"}, {"--stages", "3:0.5"}}), 6) ==
        "--stages 3:0.5 --scorer last_query_attention:over=mean --selector top_k --store keep_all --keep-first 0 --keep-last 0 --keep 1-6 "
        "--least-tokens 12 --decode same");
  CHECK(text(with({{"--keep", ""}, {"--least-tokens", "0"}, {"--stages", "3:0.5"}}), 6) == "--stages 3:0.5" + rest);
  CHECK(text(with({{"--policy", "dense"}, {"--keep", "1-6"}, {"--least-tokens", "12"}}), 6) == "--policy dense");

  policy_registry mine = policies();
  mine.add_preset("long", "", [](layer_id) {
    return policy{recency{}, at_least{stages{{2, 0.5}}, 100}, protect{top_k{}, 0, 0, {{3, 9}}}, none{}};
  });
  const auto preset = [&](std::optional<std::string> keep, std::optional<std::size_t> least) {
    const std::string all = lazyprune::text({.preset = "long", .keep = std::move(keep), .least_tokens = least}, 6, mine);
    return all.substr(all.find("--keep-last"));
  };
  CHECK(preset({}, {}) == "--keep-last 0 --keep 3-9 --least-tokens 100 --decode same");
  CHECK(preset("7", 0) == "--keep-last 0 --keep 7 --decode same");
  CHECK(preset("", 5) == "--keep-last 0 --least-tokens 5 --decode same");
}

TEST_CASE("a policy without stages is the dense policy, whatever its other parts are") {
  for (const policy_spec& spec : {with({{"--policy", "dense"}}), with({{"--stages", ""}, {"--scorer", "key_norm"}}),
                                  with({{"--policy", "static"}, {"--stages", ""}})}) {
    const policy_parts parts = parts_of(spec, 6);
    CHECK(parts.text == "--policy dense");
    CHECK(holds(parts.schedule, stages{}));
    CHECK(holds(parts.scorer, recency{}));
  }
  CHECK(text({}, 1) == "--policy dense");  // a model of one layer has no layer to prune after
}

TEST_CASE("an error names the flag, the place in its value, and what was expected") {
  for (const char* preset : {"lazyllm", "dense"}) {
    CHECK(fault_of(with({{"--policy", preset}, {"--keep", "0-63,9-3"}})) == at("--keep: 0-63,9-3", {"\"9-3\""}));
    CHECK(fault_of(with({{"--policy", preset}, {"--keep", "0-63,"}})) == at("--keep: 0-63,"));
  }
  CHECK(fault_of(with({{"--policy", "lazy"}})) ==
        at("--policy", {"lazyllm, lazyllm_blocks, static, random, streaming, fastv, pyramid_drop, tova, pyramid_kv, prompt_distill, dense",
                        ", found lazy"}));
  // Only the first names of a list are compared, because new parts are added at its end.
  const auto names = [&](const char* flag, const char* found, const std::string& expected) {
    CHECK(fault_of(with({{flag, found}})) == at(flag, {expected, *found ? std::string(", found ") + found : ""}));
  };
  names("--scorer", "attention",
        "last_query_attention, accumulated_attention, window_attention, prompt_window_attention, value_weighted_attention, key_norm, "
        "recency, random, given_scores");
  names("--schedule", "stages", "every, linear, cosine, budget, adaptive");
  names("--selector", "top_q", "top_k, top_p, threshold, blocks");
  names("--store", "", "keep_all, bounded, none");
  CHECK(fault_of(with({{"--decode", "sparse"}})) == at("--decode", {"same, dense, only", ", found sparse"}));
  CHECK(fault_of(with({{"--stages", "3:0.5"}, {"--schedule", "every:n=2,share=0.5"}})) == at("--schedule"));
  CHECK(fault_of(with({{"--policy", "dense"}, {"--stages", "2:0.3"}})) == at("--policy: dense", {", found 2:0.3"}));
  CHECK(fault_of(with({{"--policy", "dense"}, {"--stages", ""}})) == "no error");

  CHECK(fault_of(with({{"--scorer", "window_attention:windw=3"}})) ==
        at("--scorer: window_attention:windw=3", {"window, kernel, pool", ", found windw"}));
  CHECK(fault_of(with({{"--scorer", "key_norm:window=3"}})) == at("--scorer: key_norm:window=3", {", found window"}));
  CHECK(fault_of(with({{"--scorer", "window_attention:"}})) == at("--scorer: window_attention:"));
  CHECK(fault_of(with({{"--scorer", "window_attention:window"}})) == at("--scorer: window_attention:window", {", found window"}));
  CHECK(fault_of(with({{"--scorer", "window_attention:window=3,"}})) == at("--scorer: window_attention:window=3,"));
  CHECK(fault_of(with({{"--scorer", "random:seed=1,seed=1"}})) == at("--scorer: random:seed=1,seed=1", {", found seed"}));
  CHECK(fault_of(with({{"--scorer", "random:seed=-1"}})) == at("--scorer: random:seed=-1", {", found -1"}));
  CHECK(fault_of(with({{"--scorer", "window_attention:window=0"}})) == at("--scorer: window_attention:window=0", {", found 0"}));
  CHECK(fault_of(with({{"--scorer", "window_attention:kernel=4"}})) == at("--scorer: window_attention:kernel=4", {"63", ", found 4"}));
  CHECK(fault_of(with({{"--scorer", "window_attention:pool=min"}})) ==
        at("--scorer: window_attention:pool=min", {"max, mean", ", found min"}));
  CHECK(fault_of(with({{"--selector", "top_p"}})) == at("--selector: top_p"));
  CHECK(fault_of(with({{"--selector", "top_p:mass=1.5"}})) == at("--selector: top_p:mass=1.5", {", found 1.5"}));
  CHECK(fault_of(with({{"--selector", "top_p:mass="}})) == at("--selector: top_p:mass="));
  CHECK(fault_of(with({{"--selector", "threshold:score=nan"}})) == at("--selector: threshold:score=nan", {", found nan"}));
  CHECK(fault_of(with({{"--schedule", "budget:after=2"}})) == at("--schedule: budget:after=2"));
  CHECK(fault_of(with({{"--schedule", "budget:after=2,tokens=5,cost=0.5"}})) == at("--schedule: budget:after=2,tokens=5,cost=0.5"));
}

TEST_CASE("pruning after a layer that the model lacks is an error, and so is pruning before layer 0 with a scorer that needs evidence") {
  const auto no_layer = [](std::string where, std::string found) {
    return at(std::move(where), {"1 to 5", "has 6", policies().scorers_of_positions(), ", found " + found});
  };
  CHECK(fault_of(with({{"--stages", "3:0.5,6:0.5"}})) == no_layer("--stages: 3:0.5,6:0.5", "6"));
  CHECK(fault_of(with({{"--stages", "0:0.5"}})) == no_layer("--stages: 0:0.5", "0"));
  CHECK(fault_of(with({{"--stages", "0:0.5"}, {"--scorer", "recency"}})) == "no error");
  CHECK(fault_of(with({{"--stages", "6:0.5"}, {"--scorer", "random"}})) == at("--stages: 6:0.5", {"0 to 5", "has 6", ", found 6"}));
  CHECK(fault_of(with({{"--stages", "3:0.5;5:0.5"}})) == at("stages: stage 1"));
  CHECK(fault_of(with({{"--schedule", "budget:after=0,tokens=5"}})) == no_layer("--schedule: budget:after=0,tokens=5", "0"));
  CHECK(fault_of(with({{"--schedule", "adaptive:from=6"}})) == no_layer("--schedule: adaptive:from=6", "6"));
  CHECK(fault_of(with({{"--schedule", "every:n=5,share=0.5"}})) == "no error");
  CHECK(fault_of(with({{"--schedule", "every:n=6,share=0.5"}})) == no_layer("--schedule: every:n=6,share=0.5", "6"));
  CHECK(fault_of(with({{"--schedule", "linear:from=4,share=0.5"}})) == "no error");
  CHECK(fault_of(with({{"--schedule", "linear:from=5,share=0.5"}})) ==
        at("--schedule: linear:from=5,share=0.5", {"0 to 4", "has 6", ", found 5"}));
}
