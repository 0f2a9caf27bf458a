// SPDX-License-Identifier: MIT
#include <lazyprune/policy/presets.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <set>
#include <string_view>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

/// Returns the tokens of `left` that a policy keeps before layer 0, in a sequence of `known` tokens. The policy's scorer must need only
/// positions. The last element of `left` is the query token.
template <class Policy>
std::vector<position> prune(const Policy& policy, const std::vector<position>& left, std::size_t known, phase step) {
  const std::size_t keep = policy.schedule.keep({0, 8, left.size(), known, step});
  if (keep == everything) return left;
  std::vector<float> scores(left.size());
  policy.scorer.score({left, 0, known}, scores);
  scores.back() = inf;
  std::vector<std::uint32_t> kept(left.size());
  kept.resize(policy.selector.select(candidates{scores, left, keep}, kept));
  std::vector<position> positions;
  for (const std::uint32_t i : kept) positions.push_back(left[i]);
  return positions;
}

std::vector<position> first_positions(std::size_t n) {
  std::vector<position> positions(n);
  std::iota(positions.begin(), positions.end(), 0u);
  return positions;
}

TEST_CASE("dense never prunes") {
  const auto policy = dense();
  static_assert(std::same_as<evidence_of<decltype(policy.scorer)>, token_view>);
  for (layer_id done = 0; done < 32; ++done)
    for (const phase step : {phase::prefill, phase::decode}) CHECK(policy.schedule.keep({done, 32, 100, 100, step}) == everything);
}

TEST_CASE("lazyllm prunes after the layers that the paper's figures show") {
  CHECK(lazyllm_stages(32) == stages{{9, 0.7}, {19, 0.7}, {28, 0.7}});
  CHECK(lazyllm_stages(22) == stages{{6, 0.7}, {13, 0.7}, {19, 0.7}});
  CHECK(lazyllm_stages(1) == stages{});
  CHECK(lazyllm_stages(2) == stages{{1, 0.7}});
  CHECK(lazyllm_stages(4) == stages{{1, 0.7}, {2, 0.7}, {3, 0.7}});
  for (layer_id layers = 0; layers < 300; ++layers) {
    CAPTURE(layers);
    std::set<layer_id> expected{layers * 3 / 10, layers * 6 / 10, layers * 9 / 10};
    expected.erase(0);
    expected.erase(layers);
    std::set<layer_id> found;
    const stages drawn = lazyllm_stages(layers);
    for (const stage& s : drawn.list()) {
      CHECK(s.share == 0.7);
      found.insert(s.after);
    }
    CHECK(found == expected);
  }
  CHECK(lazyllm(32) == lazyllm(stages{{9, 0.7}, {19, 0.7}, {28, 0.7}}));
  CHECK(lazyllm(32) == policy{last_query_attention{}, lazyllm_stages(32), top_k{}, keep_all{}});
}

TEST_CASE("lazyllm_blocks is lazyllm with the selector blocks") {
  CHECK(lazyllm_blocks({{4, 0.5}}) == policy{last_query_attention{}, stages{{4, 0.5}}, blocks{32}, keep_all{}});
  CHECK(lazyllm_blocks({{4, 0.5}}, 8) == policy{last_query_attention{}, stages{{4, 0.5}}, blocks{8}, keep_all{}});
}

/// Returns how many tokens enter each layer of a step. At the start of the step 100 tokens are known and active.
template <class Schedule>
std::vector<std::size_t> going_on(const Schedule& schedule, layer_id layers, phase step) {
  std::vector<std::size_t> left{100};
  for (layer_id done = 1; done < layers; ++done)
    left.push_back(std::min(left.back(), schedule.keep({done, layers, left.back(), 100, step})));
  return left;
}

TEST_CASE("FastV, PyramidDrop, PyramidKV and PromptDistill prune only the prompt; TOVA prunes only later steps") {
  const auto prompt = [](const auto& policy) { return going_on(policy.schedule, 8, phase::prefill); };
  const auto after = [](const auto& policy) { return going_on(policy.schedule, 8, phase::decode); };
  const std::vector<std::size_t> all(8, 100);
  CHECK(prompt(fastv()) == std::vector<std::size_t>{100, 100, 50, 50, 50, 50, 50, 50});
  CHECK(prompt(pyramid_drop(8)) == std::vector<std::size_t>{100, 100, 50, 50, 25, 25, 13, 13});
  CHECK(prompt(pyramid_kv(0.3)) == std::vector<std::size_t>{100, 90, 80, 70, 60, 50, 40, 30});
  CHECK(prompt(prompt_distill(3, 20)) == std::vector<std::size_t>{100, 100, 100, 20, 20, 20, 20, 20});
  for (const auto& left :
       {after(fastv()), after(pyramid_drop(8)), after(pyramid_kv(0.3)), after(prompt_distill(3, 20)), prompt(tova(4, 20))})
    CHECK(left == all);
  CHECK(pyramid_drop(30).schedule.prefill == stages{{8, 0.5}, {16, 0.5}, {24, 0.5}});
  CHECK(pyramid_drop(5).schedule.prefill == stages{{2, 0.5}, {4, 0.5}});
  CHECK(pyramid_drop(6, 0.3).schedule.prefill == stages{{2, 0.3}, {4, 0.3}});
  for (const layer_id layers : {0u, 1u}) CHECK(pyramid_drop(layers).schedule.prefill == stages{});
  CHECK(after(tova(4, 20)) == std::vector<std::size_t>{100, 100, 100, 100, 20, 20, 20, 20});
}

TEST_CASE("tova and prompt_distill drop tokens for good; fastv, pyramid_drop and pyramid_kv do not") {
  CHECK_FALSE(fastv().store.for_good);
  CHECK_FALSE(pyramid_drop(8).store.for_good);
  CHECK_FALSE(pyramid_kv().store.for_good);
  CHECK(tova(4).store.for_good);
  CHECK(prompt_distill(4).store.for_good);
  CHECK(pyramid_kv().selector == protect{top_k{}, 0, 8});
  CHECK(pyramid_kv().scorer.window == pyramid_kv().selector.last);
}

TEST_CASE("static_pruning prunes only the prompt, and nothing comes back") {
  const auto policy = static_pruning({{4, 0.5}});
  static_assert(std::same_as<decltype(policy.store), none>);
  CHECK(policy.schedule.keep({4, 32, 100, 100, phase::prefill}) == 50);
  CHECK(policy.schedule.keep({4, 32, 50, 100, phase::decode}) == everything);
}

TEST_CASE("random_drop keeps a share of the prompt, and the seed decides which tokens stay") {
  const std::vector<position> prompt = first_positions(1000);
  const std::vector<position> kept = prune(random_drop(0.3, 1), prompt, 1000, phase::prefill);
  CHECK(kept.size() == 300);
  CHECK(kept.back() == 999);
  CHECK(kept != prune(random_drop(0.3, 2), prompt, 1000, phase::prefill));
  CHECK(prune(random_drop(0.3, 1), kept, 1001, phase::decode) == kept);
  static_assert(std::same_as<decltype(random_drop(0.3).store), none>);
}

TEST_CASE("streaming_llm keeps the sinks and the window at every step") {
  struct sizes {
    std::size_t sinks, window, prompt;
  };
  for (const sizes& s : {sizes{4, 16, 100}, {0, 5, 30}, {4, 1, 3}, {3, 8, 11}, {2, 50, 9}}) {
    CAPTURE(s.sinks);
    CAPTURE(s.window);
    CAPTURE(s.prompt);
    const auto policy = streaming_llm(s.sinks, s.window);
    std::vector<position> left = first_positions(s.prompt);
    for (std::size_t known = s.prompt; known < s.prompt + 40; ++known) {
      if (known > s.prompt) left.push_back(static_cast<position>(known - 1));
      left = prune(policy, left, known, known == s.prompt ? phase::prefill : phase::decode);
      std::vector<position> expected;
      for (position p = 0; p < known; ++p)
        if (p < s.sinks || p + s.window >= known) expected.push_back(p);
      REQUIRE(left == expected);
    }
  }
  CHECK(streaming_llm() == streaming_llm(4, 1020));
}

template <class P, class Q>
bool is_same(const P& p, const Q& q) {
  if constexpr (std::same_as<P, Q>)
    return p == q;
  else
    return false;
}

/// Returns whether the preset with this name is that policy, for a model with `layers` layers.
bool names(std::string_view wanted, layer_id layers, const auto& policy) {
  bool found = false;
  visit_presets([&](std::string_view name, std::string_view, auto make) { found |= name == wanted && is_same(make(layers), policy); });
  return found;
}

TEST_CASE("the presets with names are these policies") {
  CHECK(names("lazyllm", 32, lazyllm(32)));
  CHECK(names("lazyllm_blocks", 32, lazyllm_blocks(lazyllm_stages(32), 32)));
  CHECK(names("static", 32, static_pruning(lazyllm_stages(32))));
  CHECK(names("random", 32, random_drop(0.7, 0)));
  CHECK(names("streaming", 32, streaming_llm(4, 1020)));
  CHECK(names("fastv", 3, static_pruning({{2, 0.5}})));
  CHECK(names("fastv", 2, static_pruning({})));
  CHECK(names("pyramid_drop", 32, static_pruning({{8, 0.5}, {16, 0.5}, {24, 0.5}})));
  CHECK(names("tova", 32, tova(16, 512)));
  CHECK(names("tova", 1, tova(1, 512)));
  CHECK(names("pyramid_kv", 32, pyramid_kv(0.1)));
  CHECK(names("prompt_distill", 32, prompt_distill(12, 1024)));
  CHECK(names("prompt_distill", 2, prompt_distill(1, 1024)));
  CHECK(names("dense", 32, dense()));
}

}  // namespace
