// SPDX-License-Identifier: MIT
#include <lazyprune/session/session.hpp>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/session/any_session.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <new>
#include <random>

#include "naive_session.hpp"

namespace {

// Counts allocations, so that "nothing allocates" is a fact.
std::size_t allocations = 0;

// The allocation that fails, counted from now on; 0: none does.
std::size_t failing = 0;

void count_allocation() {
  ++allocations;
  if (failing > 0 && --failing == 0) throw std::bad_alloc();
}

}  // namespace

// Not inlined: GCC would see memory of operator new go to free and call it a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  count_allocation();
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  count_allocation();
  const auto step = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(step, std::max<std::size_t>(1, (size + step - 1) / step) * step)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

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
        if (source.from == row_source::origin::stored) {
          input.push_back(aux[source.index]);
          seen.revived.push_back(plan.rows[i]);
        }
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

/// A scorer of positions: no two steps, layers or tokens have a score in common but by chance.
struct hashed_positions {
  std::uint64_t seed;
  bool coarse;
  void score(const token_view& view, std::span<float> out) const {
    for (std::size_t i = 0; i < view.active(); ++i) out[i] = hashed_score(seed, view.known, view.done, view.positions[i], coarse);
  }
};

/// Has a place for most rows: which ones depends on how many ask, so that a row that was stored once may be refused later, also where
/// it is about to be read. `refused_reads` counts those.
struct by_hash {
  std::size_t* refused_reads;
  static bool admits(position t, std::size_t rows) { return ((t * 0x9e3779b1u + rows * 0x85ebca6bu) >> 7) % 4 != 0; }
  std::size_t admit(const stored_rows& rows, std::span<std::uint32_t> kept) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < rows.positions.size(); ++i) {
      if (admits(rows.positions[i], rows.positions.size()))
        kept[n++] = static_cast<std::uint32_t>(i);
      else if (rows.scores[i] == std::numeric_limits<float>::infinity())
        ++*refused_reads;
    }
    return n;
  }
};

/// Random prompts, steps and turns of one session against the naive one.
template <class Scorer, class Store>
void walk(std::uint32_t seed, std::mt19937& random, const Scorer& scorer, bool coarse, const Store& store, naive::rules rules) {
  rules.layers = static_cast<unsigned>(1 + random() % 6);
  const by_table table = random_table(random, rules.layers);
  rules.count = [&](unsigned done, std::size_t active, std::size_t, bool prefill) -> std::size_t {
    const double share = (prefill ? table.prefill : table.decode)[done];
    return share == 0.0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(share * static_cast<double>(active) - 1e-9)));
  };
  rules.keep_first = static_cast<unsigned>(random() % 2 ? random() % 6 : 0);
  rules.keep_last = static_cast<unsigned>(random() % 2 ? random() % 6 : 0);
  rules.before_first_layer = std::same_as<Scorer, hashed_positions>;

  lazyprune::session session(policy{scorer, table, protect{top_k{}, rules.keep_first, rules.keep_last}, store}, {.layers = rules.layers});
  if (random() % 2) session.reserve(400);
  labelled_engine<decltype(session)> engine{session, {}, {}};
  naive::session expected(rules);
  statistics sums{.prefill_rows = std::vector<std::size_t>(rules.layers), .prefill_dense_rows = std::vector<std::size_t>(rules.layers)};
  for (int step = 0; step < 12; ++step) {
    CAPTURE(step);
    const bool prefill = step == 0 || random() % 5 == 0;  // a later prefill is a chat turn
    const std::size_t tokens = prefill ? 1 + random() % 24 : 1;
    const std::size_t known = session.known() + tokens;
    const auto score = [&](unsigned done, position t) { return hashed_score(seed, known, done, t, coarse); };
    const auto plans = engine.step(tokens, prefill ? phase::prefill : phase::decode, score);
    const auto wanted = expected.step(tokens, prefill, score);
    ++sums.steps;
    for (unsigned l = 0; l < rules.layers; ++l) {
      CAPTURE(l);
      REQUIRE(plans[l].active == wanted[l].active);
      REQUIRE(plans[l].rows == wanted[l].rows);
      REQUIRE(plans[l].revived == wanted[l].revived);
      sums.rows += wanted[l].rows.size();
      sums.dense_rows += tokens;
      sums.revived += wanted[l].revived.size();
      if (!prefill) continue;
      sums.prefill_rows[l] += wanted[l].rows.size();
      sums.prefill_dense_rows[l] += tokens;
    }
    for (position t = 0; t < session.known(); ++t) {
      const layer_id frontier = session.tokens().frontier(t);
      for (layer_id l = 0; l < rules.layers; ++l) REQUIRE(expected.cached(l, t) == (l < frontier));
      for (layer_id l = 1; l < rules.layers; ++l) REQUIRE(expected.stored(l, t) == (l == frontier && session.tokens().stored(t)));
    }
    REQUIRE(session.stats() == sums);
    REQUIRE(sums.rows == engine.times_computed.size());
    REQUIRE(sums.rows <= sums.dense_rows);
  }
}

/// Half of the walks have a scorer of positions, which prunes before layer 0 too.
template <class Store>
void walk(std::uint32_t seed, const Store& store, const naive::rules& rules) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  const bool coarse = random() % 2, positions = random() % 2;
  CAPTURE(positions);
  if (positions)
    walk(seed, random, hashed_positions{seed, coarse}, coarse, store, rules);
  else
    walk(seed, random, given_scores{}, coarse, store, rules);
}

}  // namespace

TEST_CASE("agrees with the dictionaries of the paper's drawing: every row has a place") {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) walk(seed, keep_all{}, {.layers = 0, .count = {}, .store = naive::rules::keep_all});
}

TEST_CASE("agrees with the dictionaries of the paper's drawing: few places") {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    const std::size_t rows = 1 + seed % 9;
    walk(seed, bounded{.rows = rows}, {.layers = 0, .count = {}, .store = naive::rules::bounded, .store_rows = rows});
  }
}

TEST_CASE("agrees with the dictionaries of the paper's drawing: no places") {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) walk(seed, none{}, {.layers = 0, .count = {}, .store = naive::rules::none});
}

TEST_CASE("agrees with the dictionaries of the paper's drawing: a store of its own mind, but for rows about to be read") {
  std::size_t refused_reads = 0;
  for (std::uint32_t seed = 1; seed <= 2000; ++seed)
    walk(seed, by_hash{&refused_reads}, {.layers = 0, .count = {}, .store = naive::rules::chosen, .admits = by_hash::admits});
  CHECK(refused_reads > 100);
}

TEST_CASE("a scorer of positions prunes before layer 0; the dropped can be embedded again, unless nothing is kept") {
  const auto run = [](auto store, auto kind) {
    lazyprune::session session(policy{random_score{.seed = 3}, stages{{0, 0.6}, {2, 0.5}}, top_k{}, store}, {.layers = 4});
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
      random_score{.seed = 3}.score(token_view{known, 0, known.size()}, scores);
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

namespace {

/// Evidence of each kind over one piece of memory; `plan` has at most 300 active tokens.
struct evidence_memory {
  std::vector<float> numbers = std::vector<float>(8 * 2 * 300);
  std::vector<float> keys = std::vector<float>(8 * 300);

  void draw(std::uint64_t step, layer_id l) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = hashed_score(1, step, l, i, false);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = hashed_score(2, step, l, i, false) + 0.1f;
  }
  template <class View>
  View look(const layer_plan& plan, [[maybe_unused]] std::size_t window) const {
    const attention_view attention{numbers.data(), 2, 300, plan.active};
    if constexpr (std::same_as<View, attention_view>) return attention;
    if constexpr (std::same_as<View, window_view>) return {numbers.data(), window, 2, 300, plan.active};
    if constexpr (std::same_as<View, key_view>) return {keys.data(), 2, 4, 8, plan.active};
    if constexpr (std::same_as<View, value_view>) return {attention, keys.data(), 2, 4, 8};
    if constexpr (std::same_as<View, hidden_view>) return {keys.data(), 8, 8, plan.rows, plan.active};
  }
};

/// The largest number of a hidden state; tokens that have none at hand come last.
struct hidden_peak {
  void score(const hidden_view& view, std::span<float> out) const {
    for (std::size_t i = 0, r = 0; i < view.active(); ++i) {
      const bool there = r < view.rows.size() && view.rows[r] == view.positions[i];
      out[i] = there ? std::ranges::max(view.row(r++)) : 0.0f;
    }
  }
};

/// One step in which the memory's numbers are the evidence; View: what the scorer takes.
template <class View, class Session>
void drive(Session& session, std::size_t tokens, phase phase, evidence_memory& memory, std::vector<position>* active = nullptr) {
  auto step = session.begin(tokens, phase);
  for (layer_id l = 0; l < session.layers(); ++l) {
    const layer_plan& plan = step.enter(l);
    if (active) active->insert(active->end(), plan.active.begin(), plan.active.end());
    memory.draw(session.known(), l);
    if constexpr (std::same_as<View, token_view>) {
      step.leave();
    } else {
      if (step.wants_scores())
        step.leave(memory.look<View>(plan, step.window()));
      else
        step.leave();
    }
    static_assert(noexcept(step.enter(l))&& noexcept(step.leave())&& noexcept(step.spills())&& noexcept(step.finish()));
  }
  step.finish();
}

template <class View, class Session>
void allocates_nothing(Session session) {
  evidence_memory memory;
  const std::size_t before = allocations;
  for (int k = 0; k < 40; ++k) drive<View>(session, k == 0 ? 200 : 1, k == 0 ? phase::prefill : phase::decode, memory);
  CHECK(allocations == before);
  CHECK(session.stats().prefill_rows[4] < session.stats().prefill_dense_rows[4]);
  CHECK_THROWS_WITH_AS(session.begin(62, phase::decode), "session: begin: expected at most 61 more tokens (reserved), found 62", error);
}

/// In a session of this policy and in an any_session of it.
template <class Scorer, class Schedule, class Selector, class Store>
void allocates_nothing(const policy<Scorer, Schedule, Selector, Store>& policy) {
  const session_options options{.layers = 5, .max_tokens = 300};
  allocates_nothing<evidence_of<Scorer>>(lazyprune::session(policy, options));
  allocates_nothing<evidence_of<Scorer>>(any_session(policy, options));
}

}  // namespace

TEST_CASE("nothing allocates after reserve, and nothing but begin throws") {
  const stages hard{{1, 0.5}, {3, 0.3}};
  allocates_nothing(policy{last_query_attention{}, hard, top_k{}, keep_all{}});
  allocates_nothing(policy{last_query_attention{}, hard, top_k{}, bounded{.rows = 20}});
  allocates_nothing(policy{last_query_attention{}, hard, top_p{.mass = 0.5}, none{}});
  allocates_nothing(policy{value_weighted_attention{}, hard, threshold{.score = 0.4f}, keep_all{}});
  allocates_nothing(policy{window_attention{.window = 8}, hard, protect{blocks{.size = 8}, 4, 8}, keep_all{}});
  allocates_nothing(policy{accumulated_attention{}, hard, protect{top_k{}, 2, 2}, bounded{.rows = 50}});
  allocates_nothing(policy{key_norm{}, hard, top_k{}, keep_all{}});
  allocates_nothing(policy{hidden_peak{}, hard, top_k{}, keep_all{}});
  allocates_nothing(policy{recency{}, hard, top_k{}, keep_all{}});
  allocates_nothing(policy{random_score{.seed = 1}, hard, top_k{}, keep_all{}});
  allocates_nothing(policy{random_score{.seed = 1}, stages{{0, 0.5}, {2, 0.5}}, top_k{}, none{}});
  allocates_nothing(policy{last_query_attention{}, adaptive{.every = 2, .mass = 0.5}, top_k{}, keep_all{}});
  allocates_nothing(policy{last_query_attention{}, prompt_only{hard}, top_k{}, keep_all{}});
  allocates_nothing(policy{last_query_attention{}, by_phase{hard, every{.n = 2, .share = 0.7}}, top_k{}, keep_all{}});
  allocates_nothing(policy{last_query_attention{}, budget({.after = 2, .cost = 0.6}), top_k{}, keep_all{}});

  const auto chosen = [&]<class View>(any_scorer scorer, any_schedule schedule, std::type_identity<View>) {
    const policy parts{scorer, schedule, any_selector(protect(any_selector(top_k{}), 2)), any_store(bounded{30})};
    const session_options options{.layers = 5, .max_tokens = 300};
    allocates_nothing<View>(lazyprune::session(parts, options));
    allocates_nothing<View>(any_session(parts, options));
  };
  chosen(key_norm{}, hard, std::type_identity<key_view>{});
  chosen(hidden_peak{}, hard, std::type_identity<hidden_view>{});
  chosen(accumulated_attention{}, adaptive{.mass = 0.5}, std::type_identity<attention_view>{});
  chosen(prompt_window_attention{.window = 8}, prompt_only(any_schedule(hard)), std::type_identity<window_view>{});
  chosen(recency{}, stages{{0, 0.5}, {2, 0.5}}, std::type_identity<token_view>{});
}

TEST_CASE("a reserve or begin for which there is no memory changes nothing") {
  const policy remembering{accumulated_attention{}, stages{{1, 0.5}, {2, 0.6}}, top_k{}, keep_all{}};
  const auto run = [&](std::size_t fails_in_reserve, std::size_t fails_in_begin) {
    lazyprune::session session(remembering, {.layers = 3});
    evidence_memory memory;
    std::vector<position> active;
    std::size_t thrown = 0;
    const auto tried = [&](std::size_t fails, auto&& work) {
      failing = fails;
      try {
        work();
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
      failing = 0;
    };
    drive<attention_view>(session, 20, phase::prefill, memory, &active);
    for (int k = 0; k < 5; ++k) drive<attention_view>(session, 1, phase::decode, memory, &active);
    if (fails_in_reserve > 0) tried(fails_in_reserve, [&] { session.reserve(150); });
    // More than is reserved: a failed reserve is no limit.
    if (fails_in_begin > 0) tried(fails_in_begin, [&] { (void)session.begin(170, phase::prefill); });
    if (fails_in_reserve + fails_in_begin > 0 && thrown == 0) return std::tuple(active, session.stats(), thrown);
    drive<attention_view>(session, 170, phase::prefill, memory, &active);
    for (int k = 0; k < 5; ++k) drive<attention_view>(session, 1, phase::decode, memory, &active);
    return std::tuple(active, session.stats(), thrown);
  };
  const auto expected = run(0, 0);
  const auto every = [&](auto&& fail) {  // every allocation fails once
    std::size_t n = 1;
    for (;; ++n) {
      CAPTURE(n);
      const auto [active, stats, thrown] = fail(n);
      if (thrown == 0) break;
      REQUIRE(active == std::get<0>(expected));
      REQUIRE(stats == std::get<1>(expected));
    }
    return n - 1;
  };
  CHECK(every([&](std::size_t n) { return run(n, 0); }) > 10);
  CHECK(every([&](std::size_t n) { return run(0, n); }) > 10);
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

TEST_CASE("an error has a code to act on") {
  const auto code = [](auto&& work) {
    try {
      work();
    } catch (const error& fault) {
      return fault.code();
    }
    return error_code::io;
  };
  lazyprune::session session(dense(), {.layers = 2, .max_tokens = 4});
  CHECK(code([&] { (void)session.begin(5, phase::prefill); }) == error_code::no_room);
  CHECK(code([&] { (void)session.begin(0, phase::prefill); }) == error_code::bad_input);
  CHECK(code([&] {
          (void)session.begin(1, phase::prefill);
          (void)session.begin(1, phase::prefill);
        }) == error_code::wrong_order);
}

#ifdef NDEBUG  // with assertions it ends the program
TEST_CASE("finish before the last layer, or inside it, leaves the step unfinished") {
  const auto refused = [](auto&& work) {
    lazyprune::session session(dense(), {.layers = 2});
    {
      auto step = session.begin(3, phase::prefill);
      work(step);
      step.finish();
    }
    CHECK_THROWS_WITH_AS(session.begin(1, phase::decode),
                         "session: begin: expected the last step finished, or reset(), found a step that was left unfinished", error);
    session.reset();
    CHECK_NOTHROW(session.begin(1, phase::prefill));
  };
  refused([](auto&) {});
  refused([](auto& step) { step.enter(0); });
  refused([](auto& step) {
    step.enter(0);
    step.leave();
  });
  refused([](auto& step) {
    step.enter(0);
    step.leave();
    step.enter(1);
  });
}
#endif

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
  const std::size_t before = allocations;
  session.reset();
  CHECK(allocations == before);
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

TEST_CASE("margin: of scores below zero, of a tie, of a selector that keeps the worse") {
  const auto margin = [](auto selector, const std::vector<float>& scores) {
    lazyprune::session session(policy{given_scores{}, stages{{1, 0.5}}, selector, keep_all{}}, {.layers = 2});
    auto step = session.begin(scores.size(), phase::prefill);
    const layer_plan& plan = step.enter(0);
    step.leave(attention_view{scores.data(), 1, scores.size(), plan.active});
    return step.margin();
  };
  // Half of the six are kept: two and the query token, the last one, whose score says nothing.
  CHECK(margin(top_k{}, {-0.5f, -0.1f, -0.4f, -0.2f, -0.9f, -7.0f}) == doctest::Approx((-0.2 - -0.4) / 0.2));
  CHECK(margin(top_k{}, {0.5f, -0.3f, -0.4f, -0.8f, -0.9f, 1.0f}) == doctest::Approx((-0.3 - -0.4) / 0.3));
  CHECK(margin(top_k{}, {0.5f, 0.2f, 0.2f, 0.2f, 0.1f, 1.0f}) == 0.0f);
  CHECK(margin(top_k{}, {0.5f, 0.0f, 0.0f, 0.0f, -0.1f, 1.0f}) == 0.0f);
  CHECK(margin(top_k{}, {-0.5f, -0.5f, -0.5f, -0.5f, -0.5f, 1.0f}) == 0.0f);
  // Pages of two: the query's and the one that has the best token, and the worst.
  CHECK(std::isnan(margin(blocks{.size = 2}, {0.9f, 0.1f, 0.4f, 0.4f, 0.2f, 0.0f})));
}
