// SPDX-License-Identifier: MIT
#include <lazyprune/lazyprune.hpp>
#include <lazyprune/session/session.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <new>
#include <random>

#include "naive_session.hpp"

namespace {

// Counts allocations, so that "nothing allocates" is a fact.
std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace lazyprune;

/// Scores that the test hands in as one head of attention.
struct given_scores {
  void score(const attention_view& view, std::span<float> out) const { std::ranges::copy(view.head(0), out.begin()); }
};

/// A count by table: (done layers, phase) → share; 0 does not prune.
struct by_table {
  std::vector<double> prefill, decode;  // (layers)
  std::size_t keep(const layer_context& c) const {
    const double share = (c.step == phase::prefill ? prefill : decode)[c.done];
    return share == 0.0 ? everything : static_cast<std::size_t>(std::ceil(share * static_cast<double>(c.active) - 1e-9));
  }
};

/// An engine whose "hidden states" are labels, so that every row's input can be checked: the output of layer l-1 for that very token.
struct label {
  position token;
  layer_id layer;  // the input of this layer
  friend bool operator==(const label&, const label&) = default;
};

template <class Session>
struct labelled_engine {
  Session& session;
  std::vector<label> rows, aux;
  std::map<std::pair<layer_id, position>, int> times_computed{};

  /// One step; `score(done, token)` is what the scorer sees. Returns the plans.
  template <class Score>
  std::vector<naive::layer> step(std::size_t new_tokens, phase phase, Score&& score) {
    auto step = session.begin(new_tokens, phase);
    std::vector<naive::layer> plans;
    std::vector<float> attention;
    for (layer_id l = 0; l < session.layers(); ++l) {
      const layer_plan& plan = step.enter(l);
      naive::layer seen{{plan.active.begin(), plan.active.end()}, {plan.rows.begin(), plan.rows.end()}, {}};
      std::vector<label> input;
      for (std::size_t i = 0; i < plan.rows.size(); ++i) {
        const row_source source = plan.sources[i];
        if (source.from == row_source::origin::embedding) input.push_back({source.index, 0});
        if (source.from == row_source::origin::carried) input.push_back(rows[source.index]);
        if (source.from == row_source::origin::stored) input.push_back(aux[source.index]), seen.revived.push_back(plan.rows[i]);
        REQUIRE(input.back() == label{plan.rows[i], l});
        REQUIRE(++times_computed[{l, plan.rows[i]}] == 1);
      }
      REQUIRE(plan.finish == (l + 1 == session.layers() ? 1 : plan.rows.size()));
      REQUIRE(plan.active.back() + 1 == session.known());
      REQUIRE(plan.rows.back() + 1 == session.known());
      rows = input;
      for (label& row : rows) ++row.layer;
      plans.push_back(seen);

      if constexpr (std::same_as<evidence_of<decltype(session.policy_in_use().scorer)>, attention_view>) {
        attention.resize(plan.active.size());
        for (std::size_t i = 0; i < attention.size(); ++i) attention[i] = score(l + 1, plan.active[i]);
        if (step.wants_scores())
          step.leave(attention_view{attention.data(), 1, attention.size(), plan.active});
        else
          step.leave();
      } else {
        REQUIRE(!step.wants_scores());
        step.leave();
      }
      for (const spill& s : step.spills()) {
        if (aux.size() <= s.slot) aux.resize(s.slot + 1, {0, 0});
        aux[s.slot] = rows[s.row];
      }
      REQUIRE(session.tokens().slots() >= aux.size());
    }
    step.finish();
    return plans;
  }
};

float hashed_score(std::uint64_t seed, std::uint64_t step, std::uint64_t done, std::uint64_t t, bool coarse) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15u + step * 0xbf58476d1ce4e5b9u + done * 0x94d049bb133111ebu + t * 0xd6e8feb86659fd93u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  if (z % 97 == 0) return std::numeric_limits<float>::quiet_NaN();
  return coarse ? static_cast<float>(z % 5) : static_cast<float>(z >> 40) * 0x1p-24f;
}

by_table random_table(std::mt19937& random, unsigned layers) {
  by_table table{std::vector<double>(layers), std::vector<double>(layers)};
  for (auto* shares : {&table.prefill, &table.decode})
    for (double& share : *shares)
      if (random() % 2) share = 0.05 + 0.95 * std::uniform_real_distribution<>()(random);
  if (random() % 3 == 0) table.decode.assign(layers, 0.0);  // decode dense
  if (random() % 3 == 0) table.decode = table.prefill;
  return table;
}

/// Random prompts, steps and turns of one session against the naive one.
template <class Store>
void walk(std::uint32_t seed, Store store, decltype(naive::rules::store) kind, std::size_t store_rows) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto layers = static_cast<unsigned>(1 + random() % 6);
  const by_table table = random_table(random, layers);
  const std::size_t first = random() % 2 ? random() % 6 : 0, last = random() % 2 ? random() % 6 : 0;
  const bool coarse = random() % 2;

  lazyprune::session session(policy{given_scores{}, table, protect{top_k{}, first, last}, store}, {.layers = layers});
  if (random() % 2) session.reserve(400);
  labelled_engine<decltype(session)> engine{session, {}, {}};
  naive::session expected({.layers = layers,
                           .count =
                               [&](unsigned done, std::size_t active, std::size_t, bool prefill) {
                                 const double share = (prefill ? table.prefill : table.decode)[done];
                                 return share == 0.0
                                            ? 0
                                            : std::max<std::size_t>(
                                                  1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(active) - 1e-9)));
                               },
                           .keep_first = static_cast<unsigned>(first),
                           .keep_last = static_cast<unsigned>(last),
                           .before_first_layer = false,
                           .store = kind,
                           .store_rows = store_rows});
  std::size_t dense = 0;
  for (std::uint64_t step = 0; step < 12; ++step) {
    CAPTURE(step);
    const bool prefill = step == 0 || random() % 5 == 0;  // a later prefill is a chat turn
    const std::size_t tokens = prefill ? 1 + random() % 24 : 1;
    const auto score = [&](unsigned done, position t) { return hashed_score(seed, step, done, t, coarse); };
    const auto plans = engine.step(tokens, prefill ? phase::prefill : phase::decode, score);
    const auto wanted = expected.step(tokens, prefill, score);
    dense += tokens * layers;
    for (unsigned l = 0; l < layers; ++l) {
      CAPTURE(l);
      REQUIRE(plans[l].active == wanted[l].active);
      REQUIRE(plans[l].rows == wanted[l].rows);
      REQUIRE(plans[l].revived == wanted[l].revived);
    }
    for (position t = 0; t < session.known(); ++t) {
      const layer_id frontier = session.tokens().frontier(t);
      for (layer_id l = 0; l < layers; ++l) REQUIRE(expected.cached(l, t) == (l < frontier));
      for (layer_id l = 1; l < layers; ++l) REQUIRE(expected.stored(l, t) == (l == frontier && session.tokens().stored(t)));
    }
    REQUIRE(session.stats().rows == engine.times_computed.size());
    REQUIRE(session.stats().rows <= session.stats().dense_rows);
    REQUIRE(session.stats().dense_rows == dense);
  }
}

}  // namespace

TEST_CASE("agrees with the dictionaries of the paper's drawing: every row has a place") {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) walk(seed, keep_all{}, naive::rules::keep_all, 0);
}

TEST_CASE("agrees with the dictionaries of the paper's drawing: few places") {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    const std::size_t rows = 1 + seed % 9;
    walk(seed, bounded{.rows = rows}, naive::rules::bounded, rows);
  }
}

TEST_CASE("agrees with the dictionaries of the paper's drawing: no places") {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) walk(seed, none{}, naive::rules::none, 0);
}

TEST_CASE("a scorer of positions prunes before layer 0; the dropped can be embedded again, unless nothing is kept") {
  const auto run = [](auto store, auto kind) {
    lazyprune::session session(policy{lazyprune::random{.seed = 3}, stages{{0, 0.6}, {2, 0.5}}, top_k{}, store}, {.layers = 4});
    labelled_engine<decltype(session)> engine{session, {}, {}};
    const auto share = [](unsigned done) { return done == 0 ? 0.6 : done == 2 ? 0.5 : 0.0; };
    naive::session expected(
        {.layers = 4,
         .count = [&](unsigned done, std::size_t active, std::size_t,
                      bool) { return static_cast<std::size_t>(std::ceil(share(done) * static_cast<double>(active) - 1e-9)); },
         .before_first_layer = true,
         .store = kind});
    std::vector<position> known;
    for (int step = 0; step < 10; ++step) {
      const std::size_t tokens = step == 0 ? 40 : 1;
      for (std::size_t i = 0; i < tokens; ++i) known.push_back(static_cast<position>(known.size()));
      std::vector<float> scores(known.size());
      lazyprune::random{.seed = 3}.score(token_view{known, 0, known.size()}, scores);
      const auto plans = engine.step(tokens, step == 0 ? phase::prefill : phase::decode, [](auto, auto) { return 0.0f; });
      const auto wanted = expected.step(tokens, step == 0, [&](unsigned, naive::token t) { return scores[t]; });
      for (std::size_t l = 0; l < 4; ++l) {
        CAPTURE(step);
        CAPTURE(l);
        REQUIRE(plans[l].active == wanted[l].active);
        REQUIRE(plans[l].rows == wanted[l].rows);
        REQUIRE(plans[l].revived == wanted[l].revived);
      }
    }
    return session.stats().rows;
  };
  CHECK(run(keep_all{}, naive::rules::keep_all) > run(none{}, naive::rules::none));
}

TEST_CASE("nothing allocates after reserve, and nothing but begin throws") {
  const auto run = [](auto policy) {
    lazyprune::session session(std::move(policy), {.layers = 5, .max_tokens = 300});
    std::vector<float> attention(8 * 2 * 300, 0.01f);
    std::vector<float> keys(300 * 8, 1.0f);
    const std::size_t before = allocations;
    for (int step_number = 0; step_number < 40; ++step_number) {
      auto step = session.begin(step_number == 0 ? 200 : 1, step_number == 0 ? phase::prefill : phase::decode);
      for (layer_id l = 0; l < 5; ++l) {
        const layer_plan& plan = step.enter(l);
        for (std::size_t i = 0; i < attention.size(); ++i)
          attention[i] = hashed_score(1, static_cast<std::uint64_t>(step_number), l, i, false);
        using view = evidence_of<decltype(session.policy_in_use().scorer)>;
        if constexpr (std::same_as<view, attention_view>) {
          if (step.wants_scores())
            step.leave(attention_view{attention.data(), 2, 300, plan.active});
          else
            step.leave();
        } else if constexpr (std::same_as<view, window_view>) {
          if (step.wants_scores())
            step.leave(window_view{attention.data(), step.window(), 2, 300, plan.active});
          else
            step.leave();
        } else if constexpr (std::same_as<view, key_view>) {
          if (step.wants_scores())
            step.leave(key_view{keys.data(), 2, 4, 8, plan.active});
          else
            step.leave();
        } else if constexpr (std::same_as<view, value_view>) {
          if (step.wants_scores())
            step.leave(value_view{{attention.data(), 2, 300, plan.active}, keys.data(), 2, 4, 8});
          else
            step.leave();
        } else {
          step.leave();
        }
        static_assert(noexcept(step.enter(l))&& noexcept(step.leave())&& noexcept(step.spills())&& noexcept(step.finish()));
      }
      step.finish();
    }
    CHECK(allocations == before);
    CHECK(session.stats().prefill_rows[4] < session.stats().prefill_dense_rows[4]);
    CHECK_THROWS_WITH_AS(session.begin(62, phase::decode), "session: begin: expected at most 61 more tokens (reserved), found 62", error);
  };
  const stages hard{{1, 0.5}, {3, 0.3}};
  run(policy{last_query_attention{}, hard, top_k{}, keep_all{}});
  run(policy{last_query_attention{}, hard, top_k{}, bounded{.rows = 20}});
  run(policy{last_query_attention{}, hard, top_p{.mass = 0.5}, none{}});
  run(policy{value_weighted_attention{}, hard, threshold{.score = 0.4f}, keep_all{}});
  run(policy{window_attention{.window = 8}, hard, protect{blocks{.size = 8}, 4, 8}, keep_all{}});
  run(policy{accumulated_attention{}, hard, protect{top_k{}, 2, 2}, bounded{.rows = 50}});
  run(policy{key_norm{}, hard, top_k{}, keep_all{}});
  run(policy{recency{}, hard, top_k{}, keep_all{}});
  run(policy{lazyprune::random{.seed = 1}, hard, top_k{}, keep_all{}});
  run(policy{last_query_attention{}, adaptive{.every = 2, .mass = 0.5}, top_k{}, keep_all{}});
}

TEST_CASE("a step left unfinished, no tokens, too small a reserve: errors that say so") {
  lazyprune::session session(dense(), {.layers = 2});
  CHECK_THROWS_WITH_AS(session.begin(0, phase::prefill), "session: begin: expected at least one new token, found none", error);
  CHECK(session.known() == 0);
  { [[maybe_unused]] const auto step = session.begin(3, phase::prefill); }
  CHECK_THROWS_WITH_AS(session.begin(1, phase::decode),
                       "session: begin: expected the last step finished, or reset(), found a step that was left unfinished", error);
  CHECK_THROWS_AS(session.reserve(2), error);
  session.reset();
  CHECK(session.known() == 0);
  CHECK_NOTHROW(session.begin(1, phase::prefill));
  CHECK_THROWS_AS(lazyprune::session(dense(), {.layers = 0}), error);
}

TEST_CASE("reset forgets the sequence and what the scorer remembers") {
  lazyprune::session session(policy{accumulated_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 3, .max_tokens = 64});
  const auto run = [&] {
    std::vector<std::vector<position>> seen;
    std::vector<float> attention(64);
    for (std::uint64_t k = 0; k < 6; ++k) {
      auto step = session.begin(k == 0 ? 30 : 1, k == 0 ? phase::prefill : phase::decode);
      for (layer_id l = 0; l < 3; ++l) {
        const layer_plan& plan = step.enter(l);
        seen.emplace_back(plan.active.begin(), plan.active.end());
        CHECK(step.wants_scores() == (l < 2));  // at every layer but the last
        for (std::size_t i = 0; i < plan.active.size(); ++i) attention[i] = std::abs(hashed_score(5, k, l, plan.active[i], true));
        if (step.wants_scores())
          step.leave(attention_view{attention.data(), 1, 64, plan.active});
        else
          step.leave();
      }
      step.finish();
    }
    return std::pair(seen, session.stats());
  };
  const auto once = run();
  session.reset();
  CHECK(session.stats().rows == 0);
  CHECK(run() == once);
}

TEST_CASE("the selector's word is final but for the query token") {
  struct nothing {
    std::size_t select(const candidates&, std::span<std::uint32_t>) const { return 0; }
  };
  lazyprune::session session(policy{given_scores{}, stages{{1, 0.5}}, nothing{}, keep_all{}}, {.layers = 2});
  labelled_engine<decltype(session)> engine{session, {}, {}};
  const auto plans = engine.step(5, phase::prefill, [](auto, auto) { return 1.0f; });
  CHECK(plans[1].active == std::vector<naive::token>{4});
}

TEST_CASE("margin: the gap at the cut over the least kept score, the required tokens aside") {
  lazyprune::session session(policy{given_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
  const std::vector<float> scores{0.5f, 0.1f, 0.4f, 0.2f, 0.0f, 0.9f};
  auto step = session.begin(6, phase::prefill);
  const layer_plan& plan = step.enter(0);
  step.leave(attention_view{scores.data(), 1, 6, plan.active});
  CHECK(step.margin() == doctest::Approx((0.4 - 0.2) / 0.4));  // kept: 0, 2 and the query token 5
  const layer_plan& second = step.enter(1);
  CHECK(std::vector(second.active.begin(), second.active.end()) == std::vector<position>{0, 2, 5});
  step.leave();
  CHECK(std::isnan(step.margin()));
  step.finish();
}
