// SPDX-License-Identifier: MIT
#include <lazyprune/registry/policy_spec.hpp>

#include <doctest/doctest.h>

#include <string>

#include <lazyprune/lazyprune.hpp>

#include <fault.hpp>
#include "registry/spec_with.hpp"

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::unsupported;

TEST_CASE("the name is the preset's, or custom if parts are given without a preset") {
  CHECK(name_of(policy_spec{}) == "lazyllm");
  CHECK(name_of(with({{"--stages", "3:0.5"}, {"--keep-first", "4"}})) == "lazyllm");
  CHECK(name_of(with({{"--keep", "0-63"}, {"--least-tokens", "512"}})) == "lazyllm");
  CHECK(name_of(with({{"--stages", ""}})) == "dense");
  CHECK(name_of(with({{"--policy", "static"}, {"--stages", ""}})) == "dense");
  CHECK(name_of(with({{"--policy", "static"}, {"--scorer", "key_norm"}})) == "static");
  for (const char* flag : {"--schedule", "--scorer", "--selector", "--store", "--decode"}) CHECK(name_of(with({{flag, "x"}})) == "custom");

  CHECK(short_text({}) == "lazyllm");
  CHECK(short_text(with({{"--keep-first", "4"}, {"--stages", "3:0.5"}})) == "lazyllm --stages 3:0.5 --keep-first 4");
  CHECK(short_text(with({{"--least-tokens", "512"}, {"--keep", "0-63,900-930"}})) == "lazyllm --keep 0-63,900-930 --least-tokens 512");
  CHECK(short_text(with({{"--policy", "static"}, {"--scorer", "key_norm"}})) == "static --scorer key_norm");
  CHECK(short_text(with({{"--stages", ""}, {"--keep-last", "4"}})) == "dense");
  for (const char* flag : {"--schedule", "--scorer", "--selector", "--store", "--decode"})
    CHECK(short_text(with({{flag, "x"}})) == std::string("custom ") + flag + " x");
}

TEST_CASE("parse_policy reads the text of a whole policy") {
  for (const policy_spec& spec :
       {with({}), with({{"--keep-first", "4"}, {"--stages", "3:0.5"}}), with({{"--policy", "static"}, {"--scorer", "key_norm"}}),
        with({{"--schedule", "every:n=2,share=0.5"}, {"--selector", "top_p:mass=0.9"}, {"--store", "bounded:rows=7"}}),
        with({{"--policy", "dense"}}), with({{"--policy", "random"}, {"--decode", "only"}, {"--keep-last", "16"}}),
        with({{"--keep", "0-63,900-930"}, {"--least-tokens", "512"}}), with({{"--policy", "static"}, {"--keep", ""}})}) {
    CAPTURE(short_text(spec));
    policy_spec expected = spec;
    if (spec == policy_spec{} || (spec.preset.empty() && name_of(spec) == "lazyllm")) expected.preset = "lazyllm";
    CHECK(parse_policy(short_text(spec)) == expected);
    CHECK(parse_policy(flags_text(spec)) == spec);
  }
  CHECK(parse_policy("--policy custom --scorer key_norm") == parse_policy("custom --scorer key_norm"));
  CHECK(parse_policy("") == policy_spec{});
  CHECK(parse_policy("lazyllm --stages 9:0.7 --keep-first 4") == policy_spec{.preset = "lazyllm", .stages = "9:0.7", .keep_first = 4});
}

TEST_CASE("parse_policy names the wrong word") {
  const auto fault = [](const char* text) { return error_of([&] { parse_policy(text); }); };
  CHECK(fault("--stage 9:0.7") ==
        at("policy: --stage 9:0.7",
           {"--policy, --stages, --schedule, --scorer, --selector, --store, --keep-first, --keep-last, --keep, --least-tokens, --decode",
            ", found --stage"}));
  CHECK(fault("lazyllm static") == at("policy: lazyllm static", {", found static"}));
  CHECK(parse_policy("  lazyllm  --stages   9:0.7 ") == parse_policy("lazyllm --stages 9:0.7"));
  CHECK(parse_policy("--stages  --store none").stages == "");
  CHECK(parse_policy("--stages ").stages == "");
  CHECK(fault("lazyllm --stages") == at("--stages"));
  CHECK(fault("--keep-first -1") == at("--keep-first", {", found -1"}));
  CHECK(fault("--least-tokens 1e3") == at("--least-tokens", {", found 1e3"}));
  CHECK(fault("--keep") == at("--keep"));
  CHECK(fault("static --policy fastv") == at("policy: static --policy fastv", {"one name", ", found --policy twice"}));
  CHECK(parse_policy("custom --policy fastv") == parse_policy("fastv"));
  CHECK(fault("--policy static --policy fastv") == at("policy: --policy static --policy fastv", {", found --policy twice"}));
  CHECK(fault("--keep-first 4 --keep-first 5") == at("policy: --keep-first 4 --keep-first 5", {", found --keep-first"}));
}

TEST_CASE("spec_of writes a policy of described parts as flags") {
  CHECK(spec_of(lazyllm(stages{{3, 0.5}})) == policy_spec{.stages = "3:0.5",
                                                          .scorer = "last_query_attention:over=mean",
                                                          .selector = "top_k",
                                                          .store = "keep_all",
                                                          .keep_first = 0,
                                                          .keep_last = 0,
                                                          .decode = "same"});
  CHECK(flags_text(spec_of(random_drop(0.6, 7))) ==
        "--stages 0:0.6 --scorer random:seed=7 --selector top_k --store none --keep-first 0 --keep-last 0 --decode dense");
  CHECK(flags_text(spec_of(streaming_llm(4, 60))) ==
        "--schedule budget:after=0,tokens=64 --scorer recency --selector top_k --store none:for_good=true --keep-first 4 --keep-last 0 "
        "--decode same");
  const stages half{{2, 0.5}}, never{};
  CHECK(spec_of(policy{recency{}, by_phase{never, every{2, 0.5}}, protect{blocks{4}, 1, 2}, none{}}) ==
        policy_spec{.schedule = "every:n=2,share=0.5",
                    .scorer = "recency",
                    .selector = "blocks:size=4",
                    .store = "none",
                    .keep_first = 1,
                    .keep_last = 2,
                    .decode = "only"});
  CHECK(error_of([&] {
          spec_of(policy{recency{}, by_phase{half, half}, top_k{}, none{}});
        }) == unsupported("policy: by_phase", {", found 2:0.5"}));
  CHECK(flags_text(spec_of(dense())) ==
        "--stages  --scorer recency --selector top_k --store keep_all --keep-first 0 --keep-last 0 --decode same");
}

TEST_CASE("spec_of writes a schedule that never prunes the model as no stages") {
  const auto flags = [](auto schedule, auto... layers) {
    const policy_spec spec = spec_of(policy{recency{}, schedule, top_k{}, none{}}, layers...);
    REQUIRE(spec.stages.has_value() != spec.schedule.has_value());
    return spec.schedule ? *spec.schedule : "--stages " + *spec.stages;
  };
  CHECK(flags(budget{}) == "--stages ");
  CHECK(flags(at_least{prompt_only{budget{}}, 9}) == "--stages ");
  CHECK(flags(every{4, 0.5}) == "every:n=4,share=0.5");
  CHECK(flags(every{4, 0.5}, 5u) == "every:n=4,share=0.5");
  CHECK(flags(every{4, 0.5}, 4u) == "--stages ");
  CHECK(flags(prompt_only{every{4, 0.5}}, 4u) == "--stages ");
  CHECK(flags(by_phase{stages{}, every{4, 0.5}}, 5u) == "every:n=4,share=0.5");
  CHECK(flags(by_phase{stages{}, every{4, 0.5}}, 4u) == "--stages ");
  CHECK(flags(budget({.after = 4, .tokens = 9}), 4u) == "--stages ");
  CHECK(flags(linear{.from = 3, .share = 0.5}, 4u) == "--stages ");
}

TEST_CASE("spec_of writes at_least, outside or inside other schedules, and protected spans as flags") {
  const stages half{{2, 0.5}};
  const auto flags = [](auto schedule) {
    return flags_text(spec_of(policy{recency{}, schedule, protect{top_k{}, 1, 2, {{900, 930}, {0, 63}}}, none{}}));
  };
  const auto expected = [](const std::string& schedule, const std::string& rest) {
    return schedule + " --scorer recency --selector top_k --store none --keep-first 1 --keep-last 2 --keep 0-63,900-930" + rest;
  };
  CHECK(flags(half) == expected("--stages 2:0.5", " --decode same"));
  CHECK(flags(at_least{half, 0}) == expected("--stages 2:0.5", " --decode same"));
  CHECK(flags(at_least{every{2, 0.5}, 9}) == expected("--schedule every:n=2,share=0.5", " --least-tokens 9 --decode same"));
  CHECK(flags(at_least{prompt_only{half}, 9}) == expected("--stages 2:0.5", " --least-tokens 9 --decode dense"));
  CHECK(flags(prompt_only{at_least{half, 9}}) == expected("--stages 2:0.5", " --least-tokens 9 --decode dense"));
  CHECK(flags(at_least{prompt_sets{half}, 9}) == expected("--stages 2:0.5", " --least-tokens 9 --decode kept"));
  CHECK(flags(by_phase{stages{}, at_least{half, 9}}) == expected("--stages 2:0.5", " --least-tokens 9 --decode only"));
  CHECK(flags(at_least{by_phase{stages{}, half}, 9}) == expected("--stages 2:0.5", " --least-tokens 9 --decode only"));
}

TEST_CASE("spec_of writes wrappers inside wrappers of the same kind without loss, or refuses them") {
  const stages half{{2, 0.5}};
  const auto of = [](auto schedule, auto selector) { return spec_of(policy{recency{}, schedule, selector, none{}}); };
  const policy_spec both = of(at_least<at_least<stages>>{at_least{half, 100}, 1}, protect<protect<top_k>>{protect{top_k{}, 4, 8}, 1, 9});
  CHECK(both.keep_first == 4);
  CHECK(both.keep_last == 9);
  CHECK(both.least_tokens == 100);
  CHECK(error_of([&] {
          of(half, protect<protect<top_k>>{protect{top_k{}, 0, 0, {{1, 2}}}, 0, 0, {{5, 6}}});
        }) == unsupported("policy: protect", {"5-6 around 1-2"}));
  CHECK(error_of([&] {
          of(by_phase{stages{}, prompt_only{half}}, top_k{});
        }) == unsupported("policy: schedule", {"decode dense inside another"}));
}
