// SPDX-License-Identifier: MIT
#include <lazyprune/session/any_session.hpp>

#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <fault.hpp>

namespace {

using namespace lazyprune;
using lazyprune_test::at;
using lazyprune_test::error_of;

/// All that a session shows at one layer of a step.
struct seen {
  std::vector<position> active, rows;
  std::vector<row_source> sources;
  std::vector<spill> spills;
  evidence_kind wants;
  std::size_t window;
  friend bool operator==(const seen&, const seen&) = default;
};

template <class View>
View view_of_hash(const layer_plan& plan, std::size_t queries, std::vector<float>& memory) {
  const std::size_t n = plan.active.size();
  memory.resize(std::max<std::size_t>(1, queries) * 4 * n + 8 * n);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::fmod(static_cast<float>((i + 1) * (plan.layer + 3)) * 0.618f, 1.0f);
  const attention_view attention{memory.data(), 4, n, plan.active};
  if constexpr (std::same_as<View, attention_view>) return attention;
  if constexpr (std::same_as<View, window_view>) return {memory.data(), queries, 4, n, plan.active};
  if constexpr (std::same_as<View, key_view>) return {memory.data(), 2, 4, 8, plan.active};
  if constexpr (std::same_as<View, value_view>) return {attention, memory.data() + 4 * n, 2, 4, 8};
}

template <class View, class Session>
std::vector<seen> run(Session& session) {
  std::vector<seen> all;
  std::vector<float> memory;
  for (int k = 0; k < 8; ++k) {
    auto step = session.begin({k == 0 ? 50u : 1u, k == 0 ? phase::prefill : phase::decode});
    for (layer_id l = 0; l < session.layers(); ++l) {
      const layer_plan& p = step.enter(l);
      all.push_back({{p.active.begin(), p.active.end()},
                     {p.rows.begin(), p.rows.end()},
                     {p.sources.begin(), p.sources.end()},
                     {},
                     step.wants(),
                     step.window()});
      if constexpr (std::is_void_v<View>)
        step.leave();
      else if (step.wants_scores())
        step.leave(view_of_hash<View>(p, step.window(), memory));
      else
        step.leave();
      all.back().spills.assign(step.spills().begin(), step.spills().end());
    }
    step.finish();
  }
  return all;
}

template <class View, class Policy>
void same(const Policy& policy) {
  lazyprune::session typed(policy, {.layers = 5});
  any_session erased(policy, {.layers = 5, .max_tokens = 60});
  const auto expected = run<View>(typed);
  CHECK(run<View>(erased) == expected);
  CHECK(erased.stats() == typed.stats());
  CHECK(erased.known() == 57);
  erased.reset();
  CHECK(erased.known() == 0);
  CHECK(run<View>(erased) == expected);
}

}  // namespace

TEST_CASE("any_session does what the session in it does, for every kind of evidence") {
  const stages hard{{1, 0.5}, {3, 0.4}};
  same<attention_view>(policy{last_query_attention{}, hard, top_k{}, keep_all{}});
  same<attention_view>(policy{accumulated_attention{}, hard, top_k{}, bounded{.rows = 9}});
  same<attention_view>(policy{last_query_attention{}, adaptive{.mass = 0.6}, top_k{}, keep_all{}});
  same<window_view>(policy{window_attention{.window = 4}, hard, top_k{}, keep_all{}});
  same<key_view>(policy{key_norm{}, hard, top_k{}, none{}});
  same<value_view>(policy{value_weighted_attention{}, hard, top_k{}, keep_all{}});
  same<void>(policy{recency{}, stages{{0, 0.8}, {2, 0.5}}, top_k{}, keep_all{}});
  same<void>(dense());
}

TEST_CASE("a policy of any_scorer, any_schedule, ... gives the same plans as the policy of the parts inside") {
  const auto as_itself = []<class View>(const auto& policy, std::type_identity<View>) {
    const lazyprune::policy parts{any_scorer(policy.scorer), any_schedule(policy.schedule), any_selector(policy.selector),
                                  any_store(policy.store)};
    lazyprune::session typed(policy, {.layers = 5});
    lazyprune::session chosen(parts, {.layers = 5});
    any_session erased(parts, {.layers = 5, .max_tokens = 60});
    const auto expected = run<View>(typed);
    CHECK(run<View>(chosen) == expected);
    CHECK(run<View>(erased) == expected);
    CHECK(erased.stats() == typed.stats());
    erased.reset();
    CHECK(run<View>(erased) == expected);
  };
  constexpr std::type_identity<attention_view> attention;
  constexpr std::type_identity<window_view> window;
  const stages hard{{1, 0.5}, {3, 0.4}};
  as_itself(policy{last_query_attention{}, hard, top_k{}, keep_all{}}, attention);
  as_itself(policy{last_query_attention{}, adaptive{.mass = 0.6}, top_k{}, keep_all{}}, attention);
  as_itself(policy{accumulated_attention{}, by_phase{hard, adaptive{.mass = 0.6}}, top_k{}, bounded{.rows = 9}}, attention);
  as_itself(policy{window_attention{.window = 4}, hard, protect{top_k{}, 2, 2}, keep_all{}}, window);
  as_itself(policy{prompt_window_attention{.window = 4}, prompt_only{hard}, top_p{.mass = 0.9}, keep_all{}}, window);
  as_itself(policy{key_norm{}, hard, blocks{.size = 4}, none{}}, std::type_identity<key_view>{});
  as_itself(policy{value_weighted_attention{}, hard, top_k{}, keep_all{}}, std::type_identity<value_view>{});
  as_itself(policy{recency{}, stages{{0, 0.8}, {2, 0.5}}, top_k{}, keep_all{}}, std::type_identity<void>{});
  as_itself(dense(), std::type_identity<void>{});
}

TEST_CASE("any_session reports the errors of the session") {
  any_session session(dense(), {.layers = 2, .max_tokens = 4});
  CHECK(error_of([&] { session.begin({5, phase::prefill}); }) == at("session: begin", {"most 4", ", found 5"}, error_code::no_room));
  session.reserve(6);
  CHECK_NOTHROW(session.begin({5, phase::prefill}));
}
