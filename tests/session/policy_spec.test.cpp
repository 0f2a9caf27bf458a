// SPDX-License-Identifier: MIT
#include <lazyprune/session/policy_spec.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

policy_spec with(std::initializer_list<std::pair<std::string_view, std::string_view>> flags) {
  policy_spec spec;
  for (const auto& [flag, value] : flags) {
    if (flag == "--policy") spec.preset = value;
    if (flag == "--stages") spec.stages = value;
    if (flag == "--schedule") spec.schedule = value;
    if (flag == "--scorer") spec.scorer = value;
    if (flag == "--selector") spec.selector = value;
    if (flag == "--store") spec.store = value;
    if (flag == "--keep-first") spec.keep_first = number_in<std::size_t>(value);
    if (flag == "--keep-last") spec.keep_last = number_in<std::size_t>(value);
    if (flag == "--decode") spec.decode = value;
  }
  return spec;
}

/// "--a x --b y" as it would be typed.
policy_spec typed(std::string_view flags) {
  policy_spec spec;
  const auto words = split(flags, ' ');
  REQUIRE(words.size() % 2 == 0);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const policy_spec one = with({{words[i], words[i + 1]}});
    REQUIRE(one != policy_spec{});
    if (!one.preset.empty()) spec.preset = one.preset;
    if (one.stages) spec.stages = one.stages;
    if (one.schedule) spec.schedule = one.schedule;
    if (one.scorer) spec.scorer = one.scorer;
    if (one.selector) spec.selector = one.selector;
    if (one.store) spec.store = one.store;
    if (one.keep_first) spec.keep_first = one.keep_first;
    if (one.keep_last) spec.keep_last = one.keep_last;
    if (one.decode) spec.decode = one.decode;
  }
  return spec;
}

const std::string rest =
    " --scorer last_query_attention:over=mean --selector top_k --store keep_all --keep-first 0 --keep-last 0 --decode same";

}  // namespace

TEST_CASE("no flag is lazyllm, with the stages that the paper draws") {
  CHECK(text({}, 32) == "--stages 9:0.7,19:0.7,28:0.7" + rest);
  CHECK(text(with({{"--policy", "lazyllm"}}), 6) == "--stages 1:0.7,3:0.7,5:0.7" + rest);
  const policy_parts parts = parts_of({}, 32);
  CHECK(parts.scorer == scorer_choice(last_query_attention{}));
  CHECK(parts.schedule == schedule_choice(plain_schedule(stages{{9, 0.7}, {19, 0.7}, {28, 0.7}})));
  CHECK(parts.selector == selector_choice(top_k{}));
  CHECK(parts.store == store_choice(keep_all{}));
  CHECK(parts.when == pruned_steps::all);
}

TEST_CASE("every part can be given, every number in it reaches the policy, and what is not given has the policy's own default") {
  const auto scorer = [](const char* text) { return parts_of(with({{"--scorer", text}}), 8).scorer; };
  CHECK(scorer("last_query_attention:over=max") == scorer_choice(last_query_attention{head_reduction::max}));
  CHECK(scorer("accumulated_attention") == scorer_choice(accumulated_attention{}));
  CHECK(scorer("accumulated_attention:since=step,over=max") ==
        scorer_choice(accumulated_attention{layer_reduction::max, memory_span::step}));
  CHECK(scorer("window_attention") == scorer_choice(window_attention{}));
  CHECK(scorer("window_attention:window=8,kernel=5,pool=mean") == scorer_choice(window_attention{8, 5, pooling::mean}));
  CHECK(scorer("prompt_window_attention") == scorer_choice(prompt_window_attention{}));
  CHECK(scorer("prompt_window_attention:window=8,kernel=5,pool=mean") == scorer_choice(prompt_window_attention{8, 5, pooling::mean}));
  CHECK(scorer("value_weighted_attention") == scorer_choice(value_weighted_attention{}));
  CHECK(scorer("value_weighted_attention:norm=l1") == scorer_choice(value_weighted_attention{vector_norm::l1}));
  CHECK(scorer("key_norm") == scorer_choice(key_norm{}));
  CHECK(scorer("recency") == scorer_choice(recency{}));
  CHECK(scorer("random:seed=18446744073709551615") == scorer_choice(random_score{18446744073709551615u}));

  const auto schedule = [](const char* text) { return parts_of(with({{"--schedule", text}, {"--scorer", "recency"}}), 8).schedule; };
  const auto plain = [](auto s) { return schedule_choice(plain_schedule(s)); };
  CHECK(schedule("every:n=2,share=0.5") == plain(every{2, 0.5}));
  CHECK(schedule("linear:share=0.5") == plain(linear{0, 0.5}));
  CHECK(schedule("linear:from=3,share=0.5") == plain(linear{3, 0.5}));
  CHECK(schedule("cosine:from=1,share=0.25") == plain(cosine{1, 0.25}));
  CHECK(schedule("budget:after=0,tokens=512") == plain(budget({.after = 0, .tokens = 512})));
  CHECK(schedule("budget:after=7,cost=0.9") == plain(budget({.after = 7, .cost = 0.9})));
  CHECK(schedule("adaptive") == schedule_choice(adaptive{}));
  CHECK(schedule("adaptive:from=2,every=3,mass=0.8,least=0.2") == schedule_choice(adaptive{2, 3, 0.8, 0.2}));

  const auto selector = [](const char* text) { return parts_of(with({{"--selector", text}}), 8).selector; };
  CHECK(selector("top_k") == selector_choice(top_k{}));
  CHECK(selector("top_p:mass=0.9") == selector_choice(top_p{0.9}));
  CHECK(selector("threshold:score=-0.5") == selector_choice(threshold{-0.5f}));
  CHECK(selector("blocks") == selector_choice(blocks{}));
  CHECK(selector("blocks:size=32") == selector_choice(blocks{32}));

  const auto store = [](const char* text) { return parts_of(with({{"--store", text}}), 8).store; };
  CHECK(store("keep_all") == store_choice(keep_all{}));
  CHECK(store("bounded:rows=0") == store_choice(bounded{0}));
  CHECK(store("none") == store_choice(none{}));

  const policy_parts parts = parts_of(with({{"--keep-first", "4"}, {"--keep-last", "9"}, {"--decode", "dense"}}), 8);
  CHECK(parts.keep_first == 4);
  CHECK(parts.keep_last == 9);
  CHECK(parts.when == pruned_steps::prefill);
  CHECK(parts_of(with({{"--decode", "only"}}), 8).when == pruned_steps::decode);
}

TEST_CASE("the text makes the same policy again") {
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
       }) {
    const policy_parts parts = parts_of(spec, 6);
    CAPTURE(parts.text);
    CHECK(parts_of(typed(parts.text), 6) == parts);
  }
}

TEST_CASE("what never prunes is the dense policy, whatever the other parts say") {
  for (const policy_spec& spec : {with({{"--policy", "dense"}}), with({{"--stages", ""}, {"--scorer", "key_norm"}}),
                                  with({{"--policy", "static"}, {"--stages", ""}})}) {
    const policy_parts parts = parts_of(spec, 6);
    CHECK(parts.text == "--policy dense");
    CHECK(parts.schedule == schedule_choice(plain_schedule(stages{})));
    CHECK(parts.scorer == scorer_choice(recency{}));
  }
  CHECK(text({}, 1) == "--policy dense");  // one layer: no room for a stage
}

TEST_CASE("a mistake is named: the flag, the place in it, what would be right") {
  const auto fault = [](const policy_spec& spec) -> std::string {
    try {
      parts_of(spec, 6);
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  };
  CHECK(fault(with({{"--policy", "lazy"}})) == "--policy: expected one of lazyllm, static, random, streaming, dense, found lazy");
  CHECK(fault(with({{"--scorer", "attention"}})) ==
        "--scorer: expected one of last_query_attention, accumulated_attention, window_attention, prompt_window_attention, "
        "value_weighted_attention, key_norm, recency, random, found attention");
  CHECK(fault(with({{"--schedule", "stages"}})) == "--schedule: expected one of every, linear, cosine, budget, adaptive, found stages");
  CHECK(fault(with({{"--selector", "top_q"}})) == "--selector: expected one of top_k, top_p, threshold, blocks, found top_q");
  CHECK(fault(with({{"--store", ""}})) == "--store: expected one of keep_all, bounded, none, found nothing");
  CHECK(fault(with({{"--decode", "sparse"}})) == "--decode: expected one of same, dense, only, found sparse");
  CHECK(fault(with({{"--stages", "3:0.5"}, {"--schedule", "every:n=2,share=0.5"}})) ==
        "--schedule: expected either --stages or --schedule, found both");
  CHECK(fault(with({{"--policy", "dense"}, {"--stages", "2:0.3"}})) ==
        "--policy: dense: expected no --stages and no --schedule, it never prunes, found 2:0.3");
  CHECK(fault(with({{"--policy", "dense"}, {"--stages", ""}})) == "nothing");

  CHECK(fault(with({{"--scorer", "window_attention:windw=3"}})) ==
        "--scorer: window_attention:windw=3: expected one of window, kernel, pool, found windw");
  CHECK(fault(with({{"--scorer", "key_norm:window=3"}})) == "--scorer: key_norm:window=3: expected no key, found window");
  CHECK(fault(with({{"--scorer", "window_attention:"}})) ==
        "--scorer: window_attention:: expected key=value after the colon, found nothing");
  CHECK(fault(with({{"--scorer", "window_attention:window"}})) == "--scorer: window_attention:window: expected key=value, found window");
  CHECK(fault(with({{"--scorer", "window_attention:window=3,"}})) ==
        "--scorer: window_attention:window=3,: expected key=value, found nothing");
  CHECK(fault(with({{"--scorer", "random:seed=1,seed=1"}})) == "--scorer: random:seed=1,seed=1: expected each key once, found seed");
  CHECK(fault(with({{"--scorer", "random:seed=-1"}})) == "--scorer: random:seed=-1: expected a whole number for seed, found -1");
  CHECK(fault(with({{"--scorer", "window_attention:window=0"}})) ==
        "--scorer: window_attention:window=0: expected a whole number of at least 1 for window, found 0");
  CHECK(fault(with({{"--scorer", "window_attention:kernel=4"}})) ==
        "--scorer: window_attention:kernel=4: expected an odd number from 1 to 63 for kernel, found 4");
  CHECK(fault(with({{"--scorer", "window_attention:pool=min"}})) ==
        "--scorer: window_attention:pool=min: expected one of max, mean for pool, found min");
  CHECK(fault(with({{"--selector", "top_p"}})) == "--selector: top_p: expected the key mass, found none");
  CHECK(fault(with({{"--selector", "top_p:mass=1.5"}})) == "--selector: top_p:mass=1.5: expected a share in (0, 1] for mass, found 1.5");
  CHECK(fault(with({{"--selector", "top_p:mass="}})) == "--selector: top_p:mass=: expected a share in (0, 1] for mass, found nothing");
  CHECK(fault(with({{"--selector", "threshold:score=nan"}})) == "--selector: threshold:score=nan: expected a number for score, found nan");
  CHECK(fault(with({{"--schedule", "budget:after=2"}})) == "--schedule: budget:after=2: expected either tokens or cost, found neither");
  CHECK(fault(with({{"--schedule", "budget:after=2,tokens=5,cost=0.5"}})) ==
        "--schedule: budget:after=2,tokens=5,cost=0.5: expected either tokens or cost, found both");
}

TEST_CASE("a layer that the model does not have, or before which nobody can score, is a mistake") {
  const auto fault = [](const policy_spec& spec) -> std::string {
    try {
      parts_of(spec, 6);
    } catch (const error& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string scored =
      "expected a layer from 1 to 5 (the model has 6; before the first only the scorers random and recency know anything)";
  CHECK(fault(with({{"--stages", "3:0.5,6:0.5"}})) == "--stages: 3:0.5,6:0.5: " + scored + ", found 6");
  CHECK(fault(with({{"--stages", "0:0.5"}})) == "--stages: 0:0.5: " + scored + ", found 0");
  CHECK(fault(with({{"--stages", "0:0.5"}, {"--scorer", "recency"}})) == "nothing");
  CHECK(fault(with({{"--stages", "6:0.5"}, {"--scorer", "random"}})) ==
        "--stages: 6:0.5: expected a layer from 0 to 5 (the model has 6), found 6");
  CHECK(fault(with({{"--stages", "3:0.5;5:0.5"}})).starts_with("stages: stage 1: expected LAYER:SHARE"));
  CHECK(fault(with({{"--schedule", "budget:after=0,tokens=5"}})) ==
        "--schedule: budget:after=0,tokens=5: " + scored + " for after, found 0");
  CHECK(fault(with({{"--schedule", "adaptive:from=6"}})) == "--schedule: adaptive:from=6: " + scored + " for from, found 6");
  CHECK(fault(with({{"--schedule", "every:n=5,share=0.5"}})) == "nothing");
  CHECK(fault(with({{"--schedule", "every:n=6,share=0.5"}})) == "--schedule: every:n=6,share=0.5: " + scored + " for n, found 6");
  CHECK(fault(with({{"--schedule", "linear:from=4,share=0.5"}})) == "nothing");
  CHECK(fault(with({{"--schedule", "linear:from=5,share=0.5"}})) ==
        "--schedule: linear:from=5,share=0.5: expected a layer from 0 to 4 (the model has 6) for from, found 5");
}

TEST_CASE("the name is the preset's, or custom where parts are given without one") {
  CHECK(name_of({}) == "lazyllm");
  CHECK(name_of(with({{"--stages", "3:0.5"}, {"--keep-first", "4"}})) == "lazyllm");
  CHECK(name_of(with({{"--stages", ""}})) == "dense");
  CHECK(name_of(with({{"--policy", "static"}, {"--stages", ""}})) == "dense");
  CHECK(name_of(with({{"--policy", "static"}, {"--scorer", "key_norm"}})) == "static");
  for (const char* flag : {"--schedule", "--scorer", "--selector", "--store", "--decode"}) CHECK(name_of(with({{flag, "x"}})) == "custom");

  CHECK(short_text({}) == "lazyllm");
  CHECK(short_text(with({{"--keep-first", "4"}, {"--stages", "3:0.5"}})) == "lazyllm --stages 3:0.5 --keep-first 4");
  CHECK(short_text(with({{"--policy", "static"}, {"--scorer", "key_norm"}})) == "static --scorer key_norm");
  CHECK(short_text(with({{"--stages", ""}, {"--keep-last", "4"}})) == "dense");
  for (const char* flag : {"--schedule", "--scorer", "--selector", "--store", "--decode"})
    CHECK(short_text(with({{flag, "x"}})) == std::string("custom ") + flag + " x");
}
