// SPDX-License-Identifier: MIT
#include "questions/method.hpp"

#include <doctest/doctest.h>

#include <lazyprune/policy/presets.hpp>
#include <lazyprune/registry/make_session.hpp>
#include "policies.hpp"

#include <fault.hpp>

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;
using namespace lazyprune::program;

namespace {

const stages drawn = lazyllm_stages(32);  // after 9, 19 and 28

/// Returns the share of a dense prefill's rows that a session of the setting plans, for a prompt of this many tokens. All tokens have the
/// same evidence.
double planned_share(const eval_setting& setting, layer_id layers, std::size_t tokens) {
  any_session session = make_session(setting.policy, {.layers = layers}, ::policies());
  auto step = session.begin({tokens, phase::prefill});
  std::vector<float> seen;
  for (layer_id l = 0; l < layers; ++l) {
    const std::span<const position> active = step.enter(l).active;
    seen.assign(active.size() * std::max<std::size_t>(step.window(), 1), 0.5f);
    switch (step.wants()) {
      case evidence_kind::attention:
        step.leave(evidence(attention_view{seen.data(), 1, active.size(), active}));
        break;
      case evidence_kind::window:
        step.leave(evidence(window_view{seen.data(), step.window(), 1, active.size(), active}));
        break;
      default:
        step.leave();
    }
  }
  step.finish();
  return static_cast<double>(session.stats().rows) / static_cast<double>(session.stats().dense_rows);
}

eval_setting setting(std::string_view method, double budget, layer_id layers) {
  return at_budget(read_method(method, layers, drawn), budget, layers);
}

}  // namespace

TEST_CASE("methods are read with their layers, or use the recommended layers") {
  CHECK(read_method("dense", 32, drawn) == pruning_method{"dense"});
  CHECK(read_method("lazyllm", 32, drawn) == pruning_method{"lazyllm", {9, 19, 28}});
  CHECK(read_method("no_revival", 32, stages{{0, 0.5}, {4, 0.5}}) == pruning_method{"no_revival", {4}});
  CHECK(read_method("static", 32, drawn) == pruning_method{"static", {9}});
  CHECK(read_method("lazyllm@3+5", 6, drawn) == pruning_method{"lazyllm", {3, 5}});
  CHECK(read_method("gemfilter@13", 32, drawn) == pruning_method{"gemfilter", {13}});
  for (const std::string_view text : {"dense", "lazyllm@3+5", "static@1", "random", "compression", "streaming", "snapkv", "h2o"})
    CHECK(read_method(text, 6, drawn).text() == text);

  CHECK(error_of([] { read_method("lazy", 6, drawn); }) ==
        at("--methods",
           {"dense, lazyllm, no_revival, dense_decode, static, random, compression, streaming, snapkv, h2o, fastkv, gemfilter, given",
            ", found lazy"}));
  CHECK(error_of([] { read_method("", 6, drawn); }) == at("--methods", {"dense, lazyllm, "}));
  CHECK(error_of([] { read_method("random@3", 6, drawn); }) == at("--methods: random@3", {", found @3"}));
  CHECK(error_of([] { read_method("lazyllm@", 6, drawn); }) == at("--methods: lazyllm@"));
  CHECK(error_of([] { read_method("lazyllm@3+", 6, drawn); }) == at("--methods: lazyllm@3+", {"to 5"}));
  CHECK(error_of([] { read_method("lazyllm@0", 6, drawn); }) == at("--methods: lazyllm@0", {"to 5", ", found 0"}));
  CHECK(error_of([] { read_method("lazyllm@6", 6, drawn); }) == at("--methods: lazyllm@6", {"to 5", ", found 6"}));
  CHECK(error_of([] { read_method("lazyllm@3+3", 6, drawn); }) == at("--methods: lazyllm@3+3", {"after 3", ", found 3"}));
  CHECK(error_of([] { read_method("static@1+2", 6, drawn); }) == at("--methods: static@1+2", {", found @1+2"}));
  CHECK(error_of([] { read_method("lazyllm", 1, lazyllm_stages(1)); }) == at("--methods: lazyllm"));
}

TEST_CASE("the flags of each method") {
  const auto flags = [](std::string_view method) { return setting(method, 0.75, 6).description(6, policies()); };
  const std::string attention = " --scorer last_query_attention:over=mean --selector top_k", kept = " --keep-first 0 --keep-last 0";
  CHECK(setting("dense", 0.75, 6) == eval_setting{.method = "dense", .policy = {.preset = "dense"}});
  CHECK(flags("dense") == "--policy dense");
  CHECK(flags("lazyllm@3") == "--stages 3:0.5" + attention + " --store keep_all" + kept + " --decode same");
  CHECK(flags("no_revival@3") == "--stages 3:0.5" + attention + " --store none" + kept + " --decode same");
  CHECK(flags("dense_decode@3") == "--stages 3:0.5" + attention + " --store keep_all" + kept + " --decode dense");
  CHECK(flags("static@2") == "--schedule budget:after=2,cost=0.75" + attention + " --store none" + kept + " --decode dense");
  CHECK(flags("random") == "--stages 0:0.75 --scorer random:seed=0 --selector top_k --store none" + kept + " --decode dense");
  CHECK(flags("compression") == "the context compressed to leave 0.75 of the prompt, --policy dense");
  CHECK(flags("streaming") ==
        "--schedule budget:after=0,cost=0.75 --scorer recency --selector top_k --store none:for_good=true --keep-first 4 --keep-last 0 "
        "--decode same");
  CHECK(flags("snapkv") == "--stages 1:0.75 --scorer prompt_window_attention:window=32,kernel=7,pool=max --selector top_k --store none" +
                               kept + " --decode only");
  CHECK(flags("h2o") ==
        "--stages 1:0.75 --scorer accumulated_attention:over=sum,since=sequence --selector top_k --store none --keep-first 0 "
        "--keep-last 32 --decode only");
  CHECK(flags("fastkv@2") ==
        "--schedule budget:after=2,cost=0.75 --scorer window_attention:window=8,kernel=7,pool=mean --selector top_k --store none "
        "--keep-first 0 --keep-last 8 --decode dense");
  CHECK(flags("gemfilter@2") ==
        "--schedule budget:after=2,cost=0.75 --scorer window_attention:window=1,kernel=5,pool=mean --selector top_k --store none" + kept +
            " --decode dense");
  CHECK(draws(setting("random", 0.5, 6)));
  CHECK(with_seed(setting("random", 0.5, 6), 4).policy.scorer == "random:seed=4");
  CHECK_FALSE(draws(setting("static@2", 0.5, 6)));
  CHECK(with_seed(setting("static@2", 0.5, 6), 4) == setting("static@2", 0.5, 6));
  CHECK(setting("compression", 0.75, 6).prompt_share == 0.75);
  CHECK(setting("lazyllm@3+5", 0.75, 6).text() == "lazyllm@3+5 0.75");
  CHECK(setting("dense", 0.75, 6).text() == "dense");
}

TEST_CASE("method `given`: the look costs its layers, and the rest of the budget decides the share kept") {
  const eval_setting given = setting("given@2", 0.75, 6);
  CHECK(given.look == 2);
  CHECK(given.text() == "given@2 0.75");
  CHECK(given.description(6, policies()) ==
        "scores given by 2 layers that look at the prompt first, --stages 0:0.4167 --scorer given_scores --selector top_k --store none "
        "--keep-first 0 --keep-last 0 --decode dense");
  for (const double budget : {0.4, 0.75, 1.0})
    CHECK(2.0 / 6 + planned_share(setting("given@2", budget, 6), 6, 4000) == doctest::Approx(budget).epsilon(1e-3));
  CHECK(setting("lazyllm@2", 0.75, 6).look == 0);
  CHECK(error_of([] { setting("given@3", 0.5, 6); }) == at("--budgets: given@3", {"0.5"}));
  CHECK(error_of([&] {
          given.description({6, std::vector<layer_id>{3}}, policies());
        }) == at("--methods: given@2", {"after 3", "after 2"}, error_code::unsupported));
}

TEST_CASE("a variant is lazyllm with its own flags, at the same budgets") {
  const pruning_method last8 = read_variant("last8@3+5=--scorer window_attention:window=8,kernel=1 --store none", 6, drawn);
  CHECK(last8.text() == "last8@3+5");
  CHECK(read_variant("last8=--scorer key_norm", 32, drawn).text() == "last8@9+19+28");
  eval_setting varied = at_budget(last8, 0.8, 6);
  CHECK(varied.text() == "last8@3+5 0.8");
  CHECK(varied.description(6, policies()) ==
        "--stages 3:0.6733,5:0.6733 --scorer window_attention:window=8,kernel=1,pool=max --selector top_k --store none --keep-first 0 "
        "--keep-last 0 --decode same");
  for (const char* flags : {"--scorer accumulated_attention:since=step", "--scorer value_weighted_attention --selector blocks:size=4",
                            "--decode dense", "--keep-first 4 --keep-last 64"}) {
    CAPTURE(flags);
    eval_setting changed = at_budget(read_variant(std::string("x@3=") + flags, 6, drawn), 0.75, 6);
    policy_spec same = parse_policy(flags);
    same.preset = "lazyllm";
    same.stages = "3:0.5";
    CHECK(changed.policy == same);
  }

  const auto said = [](std::string_view text) { return error_of([&] { read_variant(text, 6, drawn); }); };
  for (const char* text : {"", "x", "=--store none", "@3=--store none"})
    CHECK(said(text) == at("--variant" + (*text ? ": " + std::string(text) : "")));
  CHECK(said("static=--store none") == at("--variant: static=--store none", {", found static"}));
  CHECK(said("x@3=") == at("--variant: x@3="));
  CHECK(said("x@6=--store none") == at("--variant: x@6=--store none", {"to 5", ", found 6"}));
  CHECK(said("x@3=--stor none") == at("--variant: x@3=--stor none", {"--policy, --stages"}));
  CHECK(said("x@3=--store") == at("--variant: x@3=--store"));
  for (const char* flags : {"--schedule every:n=2,share=0.5", "static --store none", "--policy static"})
    CHECK(said(std::string("x@3=") + flags) == at("--variant: x@3=" + std::string(flags), {flags}));
  CHECK(said("x@3=--stages 3:0.5") == at("--variant: x@3=--stages 3:0.5", {", found --stages 3:0.5"}));
}

TEST_CASE("a variant with its own stages ignores the budgets") {
  const pruning_method found = read_variant("found=--stages 3:0.5,5:0.2 --decode dense", 6, drawn);
  CHECK(found.text() == "found");
  const eval_setting own = at_budget(found, 0.9, 6);
  CHECK(own == at_budget(found, 0.6, 6));
  CHECK(own.text() == "found 0.6833");  // (3 + 2 * 0.5 + 0.1) / 6
  CHECK(own.description(6, policies()).starts_with("--stages 3:0.5,5:0.2 "));
  CHECK(own.description(6, policies()).ends_with(" --decode dense"));
  CHECK(error_of([&] { read_variant("x=--stages 3:2", 6, drawn); }) == at("--variant: x=--stages 3:2"));
}

TEST_CASE("every method keeps the given first and last tokens; some methods keep more") {
  const auto flags = [](std::string_view method, const kept_tokens& kept) {
    return keeping(setting(method, 0.75, 6), kept).description(6, policies());
  };
  const auto kept = [&](std::string_view method, const char* first, const char* last) {
    const std::string text = flags(method, {6, 16});
    CAPTURE(text);
    CHECK(text.find(std::string(" --keep-first ") + first + " --keep-last " + last + " ") != text.npos);
  };
  for (const std::string_view method :
       {"lazyllm@3", "no_revival@3", "dense_decode@3", "static@2", "random", "snapkv", "fastkv@2", "gemfilter@2", "given@2", "streaming"})
    kept(method, "6", "16");
  kept("h2o", "6", "32");
  CHECK(flags("streaming", {2, 0}).find(" --keep-first 4 --keep-last 0 ") != std::string::npos);
  CHECK(flags("dense", {6, 16}) == "--policy dense");
  CHECK(flags("compression", {6, 16}) ==
        "the context compressed to leave 0.75 of the prompt, but none of its first 6 and last 16 tokens, --policy dense");
  for (const std::string_view method : {"lazyllm@3", "random", "h2o", "compression", "given@2"})
    CHECK(keeping(setting(method, 0.75, 6), {}) == setting(method, 0.75, 6));
  for (const std::string_view method : {"lazyllm@2", "static@1", "random", "streaming"})  // kept tokens count towards the budget
    CHECK(planned_share(keeping(setting(method, 0.5, 6), {4, 64}), 6, 4000) == doctest::Approx(0.5).epsilon(1e-3));
}

TEST_CASE("settings: dense first, then each method at each budget, each setting once") {
  const auto settings = [](const method_flags& flags) {
    std::string text;
    for (const eval_setting& s : settings_of(flags, {.first = 4}, 6, drawn)) {
      CHECK(s.policy.keep_first == 4);
      text.append(text.empty() ? "" : ", ").append(s.text());
    }
    return text;
  };
  CHECK(settings({}) == "dense");
  CHECK(settings({.names = {"static@2", "dense", "lazyllm@3"}, .variants = {"last@3=--scorer recency"}, .budgets = {0.6, 0.9}}) ==
        "dense, static@2 0.6, static@2 0.9, lazyllm@3 0.6, lazyllm@3 0.9, last@3 0.6, last@3 0.9");
  CHECK(settings({.names = {"random", "random"}, .variants = {"own=--stages 3:0.5"}, .budgets = {0.6, 0.9}}) ==
        "dense, random 0.6, random 0.9, own 0.75");
  CHECK(error_of([&] { settings({.variants = {"x@3=--scorer recency", "x@3=--scorer key_norm"}}); }) == at("--variant: x@3"));
}

TEST_CASE("the common share of several stages") {
  // 3 + 2 s + s^2 = 0.8 * 6: s = -1 + sqrt(2.8) = 0.67332
  CHECK(setting("lazyllm@3+5", 0.8, 6).policy.stages == "3:0.6733,5:0.6733");
  // 9 + 10 s + 9 s^2 + 4 s^3 = 21.782 with the paper's 0.7
  CHECK(setting("lazyllm", 21.782 / 32, 32).policy.stages == "9:0.7,19:0.7,28:0.7");
  CHECK(setting("lazyllm@3+5", 1, 6).policy.stages == "3:1,5:1");
  CHECK(setting("lazyllm@3", 0.500001, 6).policy.stages == "3:1e-04");
}

TEST_CASE("a single stage is lazyllm at its budget, under another name") {
  eval_setting single = one_stage(3, 0.5, 6);
  CHECK(single.text() == "single_stage@3 0.75");
  single.method = "lazyllm@3";
  CHECK(single == setting("lazyllm@3", 0.75, 6));
  CHECK(one_stage(8, 0.1, 32).text() == "single_stage@8 0.325");
}

TEST_CASE("a session computes the budget's share of the rows") {
  for (const layer_id layers : {6u, 32u})
    for (const std::string_view method :
         {"lazyllm@2", "lazyllm@2+4+5", "no_revival@1+3", "dense_decode@2", "static@1", "random", "streaming", "fastkv@2", "gemfilter@1"})
      for (const double budget : {0.4, 0.5, 0.75, 0.9, 1.0}) {
        CAPTURE(method);
        CAPTURE(budget);
        CHECK(planned_share(setting(method, budget, layers), layers, 4000) == doctest::Approx(budget).epsilon(1e-3));
      }
  for (const std::string_view method : {"dense", "snapkv", "h2o", "compression"})
    CHECK(planned_share(setting(method, 0.5, 6), 6, 400) == 1.0);  // compression: all rows of the compressed prompt
}

TEST_CASE("a budget that a method cannot reach is an error") {
  CHECK(error_of([] { setting("lazyllm@3", 0.5, 6); }) == at("--budgets: lazyllm@3", {"0.5", ", found 0.5"}));
  CHECK(error_of([] { setting("static@1", 0.25, 4); }) == at("--budgets: static@1", {"0.25"}));
  CHECK(error_of([] { setting("random", 0, 6); }) == at("--budgets: random", {", found 0"}));
  CHECK(error_of([] { setting("random", 1.5, 6); }) == at("--budgets: random", {", found 1.5"}));
  CHECK(error_of([] { at_budget({"random"}, {}, 6); }) == at("--budgets: random"));
}
