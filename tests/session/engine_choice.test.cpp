// SPDX-License-Identifier: MIT
#include <lazyprune/session/engine_choice.hpp>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/registry/make_session.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <counted_allocations.hpp>
#include <fault.hpp>
#include <policies.hpp>
#include <test_data.hpp>
#include "chosen_by_rules.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::chosen_by_rules;
using lazyprune_test::fault;

constexpr layer_id model_depth = 8;

/// Numbers for evidence of every kind. With `coarse` many of them are equal.
struct drawn_evidence {
  std::vector<float> numbers;
  std::vector<token_id> ids;

  evidence look(evidence_kind kind, const layer_plan& plan, std::size_t queries, std::size_t probes, std::size_t known, std::uint32_t seed,
                bool coarse) {
    const std::size_t n = plan.active.size(), heads = 2, width = 4;
    numbers.resize((std::max<std::size_t>(queries, 1) * heads + probes + 2 * width) * n + width * plan.rows.size());
    std::mt19937 random(seed + plan.layer);
    for (float& x : numbers) x = coarse ? static_cast<float>(random() % 4) / 4 : static_cast<float>(random() >> 8) * 0x1p-24f;
    ids.resize(known);
    for (std::size_t t = 0; t < known; ++t) ids[t] = static_cast<token_id>(t % 7);
    const attention_view attention{numbers.data(), heads, n, plan.active};
    const float* const rest = numbers.data() + heads * n;
    switch (kind) {
      case evidence_kind::none:
        return {};
      case evidence_kind::attention:
        return attention;
      case evidence_kind::window:
        return window_view{numbers.data(), queries, heads, n, plan.active};
      case evidence_kind::keys:
        return key_view{rest, 2, 2, width, plan.active};
      case evidence_kind::values:
        return value_view{attention, rest, 2, 2, width};
      case evidence_kind::hidden:
        return hidden_view{rest, width, width, plan.rows, plan.active};
      case evidence_kind::ids:
        return id_view{ids, plan.active};
      case evidence_kind::probes:
        return probe_view{numbers.data(), probes, n, plan.active};
    }
    return {};
  }
};

/// A copy of a plan, and of what follows it.
struct layer_record {
  std::vector<position> active, rows;
  std::vector<row_source> sources;
  std::size_t output_rows;
  std::vector<spill> saved{};
  std::optional<float> margin{};
  friend bool operator==(const layer_record&, const layer_record&) = default;
};

layer_record record_of(const layer_plan& plan) {
  return {{plan.active.begin(), plan.active.end()},
          {plan.rows.begin(), plan.rows.end()},
          {plan.sources.begin(), plan.sources.end()},
          plan.output_rows};
}

void add_end(layer_record& to, const step<any_session>& step) {
  to.saved.assign(step.spills().begin(), step.spills().end());
  if (!std::isnan(step.margin())) to.margin = step.margin();
}

struct choices_seen {
  std::size_t chosen = 0, with_evidence = 0, not_open = 0, ahead = 0, layers_ahead = 0, slots_ahead = 0, waiting = 0, excluded = 0,
              pages = 0, abandoned = 0, forks = 0, truncated = 0;
};

/// Two sessions of one policy. In the first, the engine always shows evidence. In the second, it chooses where it may.
struct pair_of_sessions {
  any_session shown, choosing;
  any_scorer scorer;

  explicit pair_of_sessions(const policy_parts& parts)
      : shown(make_session(parts, {.layers = model_depth})), choosing(make_session(parts, {.layers = model_depth})), scorer(parts.scorer) {}
  pair_of_sessions(any_session a, any_session b, any_scorer s) : shown(std::move(a)), choosing(std::move(b)), scorer(std::move(s)) {}
  pair_of_sessions fork() const { return {shown.clone(), choosing.clone(), scorer}; }
};

/// Checks layers that follow a choice against the counts that were told before it.
struct told_ahead {
  std::vector<layer_counts> counts{};
  std::vector<std::uint32_t> slots{};
  layer_id first = 0;
  std::size_t saved = 0;

  void begin(const step<any_session>& step, layer_id layer, choices_seen& seen) {
    if (!counts.empty()) return;  // told at an earlier layer of this step
    counts.resize(model_depth);
    counts.resize(step.counts(counts));
    first = layer + 1;
    saved = 0;
    slots.clear();
    if (counts.empty()) return;
    ++seen.ahead;
    for (std::size_t i = 0; i < 600; ++i) slots.push_back(step.slot_after(i));
  }
  void entered(const layer_plan& plan, const std::optional<selection_quota>& quota, choices_seen& seen) {
    if (counts.empty() || plan.layer < first || plan.layer >= first + counts.size()) return;
    const layer_counts& told = counts[plan.layer - first];
    REQUIRE(told.layer == plan.layer);
    REQUIRE(told.active == plan.active.size());
    REQUIRE(told.active == plan.rows.size());
    REQUIRE(told.output_rows == plan.output_rows);
    REQUIRE(told.chooses == quota.has_value());
    REQUIRE(told.kept == (quota ? quota->count : plan.active.size()));
    ++seen.layers_ahead;
  }
  void left(const step<any_session>& step, layer_id layer, choices_seen& seen) {
    if (counts.empty() || layer + 1 < first) return;
    for (const spill& s : step.spills()) {
      REQUIRE(s.to == row_source::origin::stored);
      REQUIRE(s.slot == slots.at(saved++));
      ++seen.slots_ahead;
    }
  }
};

void run_step(pair_of_sessions& both, const step_request& request, std::uint32_t seed, bool coarse, std::size_t stops_after,
              choices_seen& seen) {
  auto a = both.shown.begin(request);
  auto b = both.choosing.begin(request);
  REQUIRE(a.layers() == b.layers());
  told_ahead ahead;
  drawn_evidence drawn, drawn_again;
  for (layer_id l = 0; l < a.layers() && l < stops_after; ++l) {
    const layer_plan plan = a.enter(l);
    const layer_plan same_plan = b.enter(l);
    layer_record expected = record_of(plan), found = record_of(same_plan);
    REQUIRE(found == expected);
    REQUIRE(a.wants() == b.wants());
    const auto look = [&](drawn_evidence& memory, const layer_plan& of) {
      return memory.look(a.wants(), of, a.window(), a.probes().size(), both.shown.known(), seed, coarse);
    };
    const evidence view = look(drawn, plan), same_view = look(drawn_again, same_plan);
    std::vector<candidacy> standing(plan.active.size());
    const std::optional<selection_quota> quota = b.quota(standing);
    ahead.entered(plan, quota, seen);
    std::vector<float> scores(plan.active.size());
    std::vector<std::uint32_t> indices;
    if (quota) {
      both.scorer.score(every_layer<evidence>{same_view, l, {}}, scores);
      indices = chosen_by_rules(scores, plan.active, standing, *quota);
      seen.excluded += static_cast<std::size_t>(std::ranges::count(standing, candidacy::excluded));
      seen.pages += quota->page > 1;
      for (const position t : plan.active) seen.waiting += b.wants_scores() && both.choosing.tokens().waiting(t);
      ahead.begin(b, l, seen);
    } else {
      seen.not_open += a.wants_scores();
    }
    a.leave(view);
    if (quota && seed % 5 != 0) {
      const chosen_tokens chosen{indices, scores};
      REQUIRE_NOTHROW(b.check(chosen));
      b.leave(chosen);
      ++seen.chosen;
    } else {
      b.leave(same_view);
      ++seen.with_evidence;
    }
    ahead.left(b, l, seen);
    add_end(expected, a);
    add_end(found, b);
    REQUIRE(found.saved == expected.saved);
    REQUIRE(found.margin == expected.margin);
  }
  if (stops_after < a.layers()) {
    both.shown.abandon();
    both.choosing.abandon();
    ++seen.abandoned;
    return;
  }
  a.finish();
  b.finish();
}

void compare_sessions(const pair_of_sessions& both) {
  REQUIRE(both.choosing.state() == both.shown.state());
  REQUIRE(std::ranges::equal(both.choosing.losses(), both.shown.losses()));
}

choices_seen walk_of(const std::string& policy, std::uint32_t seed, int operations) {
  CAPTURE(policy);
  CAPTURE(seed);
  choices_seen seen;
  std::mt19937 random(seed);
  std::vector<pair_of_sessions> worlds;
  worlds.emplace_back(parts_of(parse_policy(policy), model_layers(model_depth), policies()));
  const bool coarse = random() % 2;
  for (int k = 0; k < operations; ++k) {
    pair_of_sessions& both = worlds[random() % worlds.size()];
    const auto what = random() % 12;
    const std::size_t known = both.shown.known();
    if (known > 400 || (what == 0 && known > 0)) {
      const std::size_t left = random() % 3 == 0 ? 0 : random() % (known + 1);
      both.shown.truncate(left);
      both.choosing.truncate(left);
      ++seen.truncated;
    } else if (what == 1) {
      pair_of_sessions next = both.fork();
      if (worlds.size() < 3)
        worlds.push_back(std::move(next));
      else
        worlds[random() % 3] = std::move(next);
      ++seen.forks;
    } else {
      const bool prompt = known == 0 || random() % 4 == 0;
      const std::size_t tokens = prompt ? 1 + random() % 120 : 1 + random() % 2;
      const std::size_t outputs = prompt && random() % 3 == 0 ? 0 : random() % 6 == 0 ? 1 + random() % tokens : 1;
      const std::size_t stops_after = random() % 10 == 0 ? random() % (model_depth + 1) : model_depth;
      run_step(both, {tokens, prompt ? phase::prefill : phase::decode, outputs}, static_cast<std::uint32_t>(random()), coarse, stops_after,
               seen);
    }
    for (const pair_of_sessions& each : worlds) compare_sessions(each);
  }
  return seen;
}

}  // namespace

TEST_CASE("an engine that chooses by itself gets the same plans, spills, margins, statistics and states, for every preset") {
  for (const policy_preset& preset : policies().presets()) {
    CAPTURE(preset.name);
    choices_seen all;
    for (std::uint32_t seed = 0; seed < (test_all ? 6 : 2); ++seed) {
      const choices_seen seen = walk_of(preset.name, 100 + seed, 40);
      all.chosen += seen.chosen;
      all.ahead += seen.ahead;
      all.not_open += seen.not_open;
    }
    // These presets need no evidence.
    const bool no_evidence = preset.name == "dense" || preset.name == "random" || preset.name == "streaming";
    CHECK((all.chosen > 0) != no_evidence);
    if (preset.name != "lazyllm_blocks") CHECK(all.not_open == 0);
  }
}

TEST_CASE("the same holds for other selectors, stores, scorers and schedules; where the count depends on scores there is no quota") {
  choices_seen all;
  const auto run = [&](const char* policy) {
    choices_seen sum;
    for (std::uint32_t seed = 0; seed < (test_all ? 8 : 2); ++seed) {
      const choices_seen seen = walk_of(policy, 1000 + seed, 40);
      for (auto member : {&choices_seen::chosen, &choices_seen::with_evidence, &choices_seen::not_open, &choices_seen::ahead,
                          &choices_seen::layers_ahead, &choices_seen::slots_ahead, &choices_seen::waiting, &choices_seen::excluded,
                          &choices_seen::pages, &choices_seen::abandoned, &choices_seen::forks, &choices_seen::truncated}) {
        sum.*member += seen.*member;
        all.*member += seen.*member;
      }
    }
    return sum;
  };
  for (const char* policy :
       {"custom --stages 2:0.6,5:0.5", "custom --stages 2:0.6,5:0.5 --keep-first 4 --keep-last 8",
        "custom --stages 1:0.5,4:0.5 --store none", "custom --stages 1:0.5,4:0.5 --store none:for_good=true",
        "custom --stages 3:0.4 --selector blocks:size=8",
        "custom --stages 2:0.5,4:0.5,6:0.5 --selector blocks:size=4 --keep 9-13 --store none", "custom --schedule linear:from=1,share=0.3",
        "custom --stages 2:0.5,5:0.4 --decode kept", "custom --stages 2:0.5,5:0.4 --scorer key_norm",
        "custom --stages 2:0.5,5:0.4 --scorer window_attention:window=6,kernel=3", "custom --stages 2:0.5 --least-tokens 40"}) {
    CAPTURE(policy);
    const choices_seen sum = run(policy);
    CHECK(sum.chosen > 0);
    CHECK(sum.ahead > 0);
  }
  const choices_seen bounded = run("custom --stages 2:0.6,5:0.5 --store bounded:rows=30");
  CHECK(bounded.chosen > 0);
  CHECK(bounded.ahead == 0);  // the slots depend on the scores
  for (const char* policy : {"custom --stages 2:0.6 --selector top_p:mass=0.7", "custom --stages 2:0.6 --selector threshold:score=0.3",
                             "custom --schedule adaptive:mass=0.6", "custom --stages 2:0.6 --scorer accumulated_attention",
                             "custom --stages 2:0.6 --scorer prompt_window_attention:window=4", "custom --stages 2:0.6 --scorer recency"}) {
    CAPTURE(policy);
    CHECK(run(policy).chosen == 0);
  }
  CHECK(all.layers_ahead > 0);
  CHECK(all.slots_ahead > 0);
  CHECK(all.waiting > 0);
  CHECK(all.excluded > 0);
  CHECK(all.pages > 0);
  CHECK(all.abandoned > 0);
  CHECK(all.forks > 0);
  CHECK(all.truncated > 0);
}

namespace {

/// A prompt of 20 tokens in a session of 3 layers. After layer 0 half of them go on.
struct half_of_a_prompt {
  any_session session;
  lazyprune::step<any_session> step;
  std::vector<float> scores = std::vector<float>(20);
  std::vector<std::uint32_t> indices{};

  explicit half_of_a_prompt(any_session s) : session(std::move(s)), step(session.begin({20})) {
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i * 7 % 20);
    const layer_plan& plan = step.enter(0);
    std::vector<candidacy> standing(20);
    const auto quota = step.quota(standing);
    REQUIRE(quota);
    indices = chosen_by_rules(scores, plan.active, standing, *quota);
  }

  /// Leaves with this choice. Returns the error of `finish`, after which the session works on.
  fault left_with(const chosen_tokens& chosen) {
    const fault early = lazyprune_test::error_of([&] { step.check(chosen); });
    step.leave(chosen);
    CHECK(step.enter(1).active.size() == 20);  // nothing is dropped
    step.leave();
    (void)step.enter(2);
    step.leave();
    const fault late = lazyprune_test::error_of([&] { step.finish(); });
    CHECK(early == at("session: leave", {}, late.code.value()));
    CHECK_THROWS_AS((void)session.begin({1}), error);
    session.abandon();
    CHECK(session.known() == 0);
    CHECK_NOTHROW((void)session.begin({1}));
    return late;
  }
};

half_of_a_prompt half_kept() { return half_of_a_prompt(any_session(lazyllm(stages{{1, 0.5}}), {.layers = 3})); }

}  // namespace

TEST_CASE("a wrong choice drops nothing, and finish reports it") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  {
    auto p = half_kept();
    CHECK(p.indices.size() == 10);
    p.indices.erase(p.indices.begin());
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"10", "layer 0", ", found 9"}));
  }
  {
    auto p = half_kept();
    p.indices[4] = p.indices[5];
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"ascending", "below 20", "after"}));
  }
  {
    auto p = half_kept();
    std::swap(p.indices[4], p.indices[5]);
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"ascending", "after"}));
  }
  {
    auto p = half_kept();
    p.indices.back() = 20;
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"below 20", ", found 20"}));
  }
  {
    auto p = half_kept();
    REQUIRE(p.indices.back() == 19);
    for (std::uint32_t i = 0; i < 10; ++i) p.indices[i] = i;  // without the query token
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"required", "position 19"}));
  }
  {
    auto p = half_kept();
    p.scores[3] = nan;
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"finite", "position 3"}));
  }
  {
    auto p = half_kept();
    CHECK(p.left_with({p.indices, std::span(p.scores).first(19)}) == at("session: finish", {"20 scores", ", found 19"}));
  }
  {
    half_of_a_prompt p(any_session(policy{last_query_attention{}, stages{{1, 0.5}}, top_k{}, bounded{5}}, {.layers = 3}));
    CHECK(p.step.quota()->needs_scores);
    CHECK_FALSE(p.step.quota()->stores_dropped);
    CHECK(p.left_with({p.indices, {}}) == at("session: finish", {"20 scores", ", found 0"}));
  }
  {
    half_of_a_prompt p(any_session(lazyllm_blocks(stages{{1, 0.5}}, 5), {.layers = 3}));
    CHECK(p.step.quota() == selection_quota{.count = 10, .page = 5, .stores_dropped = true, .needs_scores = false, .row_is_score = true});
    p.indices = {0, 1, 2, 3, 10, 15, 16, 17, 18, 19};
    CHECK(p.left_with({p.indices, p.scores}) == at("session: finish", {"whole pages", "position 4"}));
  }
}

TEST_CASE("a token whose hidden state is gone may not be chosen") {
  any_session session(policy{last_query_attention{}, stages{{1, 0.5}, {2, 0.5}}, top_k{}, none{}}, {.layers = 3});
  std::vector<float> attention(40);
  for (std::size_t i = 0; i < attention.size(); ++i) attention[i] = static_cast<float>(i);
  const auto begin_layer = [&](auto& step, layer_id l) {
    const layer_plan& plan = step.enter(l);
    return attention_view{attention.data(), 1, plan.active.size(), plan.active};
  };
  {
    auto step = session.begin({20});
    for (layer_id l = 0; l < 3; ++l) step.leave(evidence(begin_layer(step, l)));
    step.finish();
  }
  auto step = session.begin({1, phase::decode});
  (void)step.enter(0);
  std::vector<candidacy> standing(21);
  const auto quota = step.quota(standing);
  REQUIRE(quota);
  CHECK(standing[0] == candidacy::excluded);  // it was dropped after layer 0, and the store keeps nothing
  CHECK(standing[20] == candidacy::required);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i + 1 < quota->count; ++i) indices.push_back(i);
  indices.push_back(20);
  session.abandon();
  auto again = session.begin({1, phase::decode});
  (void)again.enter(0);
  again.leave(chosen_tokens{indices, {}});
  for (layer_id l = 1; l < 3; ++l) again.leave(evidence(begin_layer(again, l)));
  CHECK(lazyprune_test::error_of([&] { again.finish(); }) == at("session: finish", {"position 0", "gone", "layer 0"}));
}

TEST_CASE("a choice where there is no quota is refused: in the last layer, in a chunk, and where nothing is decided") {
  const auto refused = [](any_session session, const step_request& request, layer_id layer) {
    auto step = session.begin(request);
    for (layer_id l = 0; l < step.layers(); ++l) {
      (void)step.enter(l);
      if (l == layer) {
        CHECK_FALSE(step.quota());
        CHECK(lazyprune_test::error_of([&] { step.check({}); }) == at("session: leave", {"quota"}, error_code::wrong_order));
        step.leave(chosen_tokens{});
      } else {
        step.leave();
      }
    }
    return lazyprune_test::error_of([&] { step.finish(); });
  };
  const any_session session(lazyllm(stages{{3, 0.5}}), {.layers = 4});
  CHECK(refused(any_session(dense(), {.layers = 4}), {8}, 3) == at("session: finish", {"layer 3", "quota"}, error_code::wrong_order));
  CHECK(refused(session.clone(), {8}, 1) == at("session: finish", {"layer 1", "quota"}, error_code::wrong_order));
  CHECK(refused(session.clone(), {8, phase::prefill, 0}, 1) == at("session: finish", {"layer 1", "quota"}, error_code::wrong_order));
  CHECK(refused(any_session(policy{last_query_attention{}, stages{{2, 0.5}}, top_p{0.5}, keep_all{}}, {.layers = 4}), {8}, 1) ==
        at("session: finish", {"layer 1", "quota"}, error_code::wrong_order));
  // A decode step of this schedule attends to all tokens that have keys, and chooses none.
  const any_session kept(policy{last_query_attention{}, prompt_sets{stages{{1, 0.5}}}, top_k{}, keep_all{}}, {.layers = 4});
  CHECK(refused(kept.clone(), {1, phase::decode}, 0) == at("session: finish", {"layer 0", "quota"}, error_code::wrong_order));
}

TEST_CASE("a choice without scores has no margin, and its dropped tokens have the score 0") {
  auto p = half_kept();
  p.step.leave(chosen_tokens{p.indices, {}});
  CHECK(std::isnan(p.step.margin()));
  CHECK(p.step.spills().size() == 10);
  CHECK(p.step.enter(1).rows.size() == 10);
  for (const token_state& token : [&] {
         p.step.leave();
         (void)p.step.enter(2);
         p.step.leave();
         p.step.finish();
         return p.session.state().tokens;
       }())
    CHECK(token.score == 0.0f);
}

TEST_CASE("counts are not known while an active token is in the aux store, because a kept one would free its slot") {
  any_session session(lazyllm(stages{{1, 0.5}, {2, 0.5}}), {.layers = 4});
  std::vector<float> attention(20);
  for (std::size_t i = 0; i < attention.size(); ++i) attention[i] = static_cast<float>(i);  // the first ten tokens are dropped
  std::vector<layer_counts> counts(4);
  std::vector<std::size_t> known;
  for (const std::size_t tokens : {20u, 10u}) {
    auto step = session.begin({tokens});
    for (layer_id l = 0; l < 4; ++l) {
      const layer_plan& plan = step.enter(l);
      if (step.quota()) known.push_back(step.counts(counts));
      step.leave(evidence(attention_view{attention.data(), 1, plan.active.size(), plan.active}));
    }
    step.finish();
    session.truncate(10);
  }
  CHECK(known == std::vector<std::size_t>{3, 2, 0, 2});
}

TEST_CASE("a store that drops tokens for good stores none of them, even if it would admit every row") {
  struct admits_all_but_drops_for_good {
    bool for_good = true;
    std::optional<bool> admits_all() const { return true; }
    std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return keep_all{}.admit(rows, kept); }
  };
  struct says_nothing_but_for_good {
    bool for_good = true;
    std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return bounded{3}.admit(rows, kept); }
  };
  half_of_a_prompt unranked(
      any_session(policy{last_query_attention{}, stages{{1, 0.5}}, top_k{}, says_nothing_but_for_good{}}, {.layers = 3}));
  CHECK_FALSE(unranked.step.quota()->stores_dropped);
  CHECK_FALSE(unranked.step.quota()->needs_scores);  // the store ranks nothing
  CHECK(unranked.step.counts({}) == 2);
  for (const bool for_good : {true, false}) {
    CAPTURE(for_good);
    half_of_a_prompt p(
        any_session(policy{last_query_attention{}, stages{{1, 0.5}}, top_k{}, admits_all_but_drops_for_good{for_good}}, {.layers = 3}));
    CHECK(p.step.quota()->stores_dropped == !for_good);
    CHECK_FALSE(p.step.quota()->needs_scores);
    p.step.leave(chosen_tokens{p.indices, p.scores});
    CHECK(p.step.spills().size() == (for_good ? 0 : 10));
  }
}

TEST_CASE("an impossible count of a selector gives no quota, and the session selects by evidence") {
  struct counts_wrong {
    kept_count answer;
    std::optional<kept_count> count(const candidates&) const { return answer; }
    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return top_k{}.select(c, kept); }
  };
  static_assert(counting_selector<counts_wrong>);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  const std::vector<float> attention(20, 0.05f);
  for (const kept_count& answer :
       {kept_count{.required = 1, .group = 0}, kept_count{.required = 1, .page = 0}, kept_count{.required = 21},
        kept_count{.required = most}, kept_count{.required = 1, .group = most}, kept_count{.required = 1, .group = 21}}) {
    CAPTURE(answer.required);
    CAPTURE(answer.group);
    CAPTURE(answer.page);
    any_session session(policy{last_query_attention{}, stages{{1, 0.5}, {2, 0.5}}, counts_wrong{answer}, keep_all{}}, {.layers = 3});
    auto step = session.begin({20});
    const layer_plan plan = step.enter(0);
    std::vector<layer_counts> counts(3);
    CHECK_FALSE(step.quota());
    CHECK(step.counts(counts) == 0);
    CHECK(lazyprune_test::error_of([&] { step.check({}); }) == at("session: leave", {"quota"}, error_code::wrong_order));
    step.leave(evidence(attention_view{attention.data(), 1, 20, plan.active}));
    CHECK(step.enter(1).active.size() == 10);
    session.abandon();
  }
  any_session right(policy{last_query_attention{}, stages{{1, 0.5}}, counts_wrong{kept_count{.required = 20, .group = 20}}, keep_all{}},
                    {.layers = 2});
  auto step = right.begin({20});
  (void)step.enter(0);
  CHECK(step.quota()->count == 20);
}

TEST_CASE("a choice allocates nothing after reserve") {
  any_session session(lazyllm_blocks(stages{{1, 0.5}, {2, 0.5}}, 8), {.layers = 3, .max_tokens = 100});
  std::vector<candidacy> standing(100);
  std::vector<layer_counts> counts(3);
  std::vector<float> scores(100);
  std::vector<std::uint32_t> indices(100);
  const std::size_t before = lazyprune_test::allocations;
  auto step = session.begin({100});
  std::size_t kept = 0;
  for (layer_id l = 0; l < 3; ++l) {
    const std::size_t active = step.enter(l).active.size();
    if (const auto quota = step.quota(standing)) {
      kept += step.counts(counts);
      for (std::size_t i = 0; i < quota->count; ++i) indices[i] = static_cast<std::uint32_t>(active - quota->count + i);
      step.leave(chosen_tokens{std::span(indices).first(quota->count), std::span(scores).first(active)});
    } else {
      step.leave();
    }
  }
  step.finish();
  CHECK(kept == 3);
  CHECK(lazyprune_test::allocations == before);
}

TEST_CASE("quota is known only inside a layer, and says whether the attention row is the score") {
  any_session session(lazyllm(stages{{1, 0.5}}), {.layers = 2});
  auto step = session.begin({10});
  CHECK_FALSE(step.quota());
  std::vector<layer_counts> counts(2);
  CHECK(step.counts(counts) == 0);
  (void)step.enter(0);
  CHECK(step.quota() == selection_quota{.count = 5, .page = 1, .stores_dropped = true, .needs_scores = false, .row_is_score = true});
  CHECK(step.counts({}) == 1);
  REQUIRE(step.counts(counts) == 1);
  CHECK(counts[0] == layer_counts{.layer = 1, .active = 5, .output_rows = 1, .chooses = false, .kept = 5});
  struct other_score : last_query_attention {  // its own score is not the row
    void score(const attention_view& view, std::span<float> out) const { std::ranges::copy(view.head(0), out.begin()); }
  };
  struct other_selector : top_k {
    std::size_t select(const candidates& c, std::span<std::uint32_t> kept) const { return top_p{0.5}.select(c, kept); }
  };
  struct other_store : keep_all {
    std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const { return bounded{3}.admit(rows, kept); }
  };
  static_assert(counting_selector<top_k> && counting_selector<protect<any_selector>> && !counting_selector<other_selector>);
  static_assert(uniform_store<keep_all> && uniform_store<none> && uniform_store<any_store> && !uniform_store<other_store>);
  struct remembering : last_query_attention {
    void score(const attention_view&, std::span<float>) {}
    head_reduction over_heads() const { return head_reduction::max; }
  };
  struct same_score : last_query_attention {
    head_reduction over_heads() const { return head_reduction::max; }
  };
  struct row_of_nothing : other_score {  // a row without over_heads
    using row_is_score [[maybe_unused]] = row_of_nothing;
  };
  static_assert(!row_scorer<row_of_nothing>);
  static_assert(row_scorer<last_query_attention> && !row_scorer<other_score> && !row_scorer<key_norm>);
  static_assert(head_reducing_scorer<last_query_attention> && head_reducing_scorer<remembering>);
  static_assert(head_reducing_scorer<same_score> && !head_reducing_scorer<other_score>);
  any_session by_keys(policy{key_norm{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
  auto other = by_keys.begin({10});
  (void)other.enter(0);
  CHECK_FALSE(other.quota()->row_is_score);
}
