// SPDX-License-Identifier: MIT
#include <lazyprune/session/session.hpp>

#include <lazyprune/lazyprune.hpp>
#include <lazyprune/session/any_session.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <new>
#include <set>
#include <string>

#include <counted_allocations.hpp>

#include <fault.hpp>
#include "labelled_engine.hpp"
#include "naive_session.hpp"

namespace {

using namespace lazyprune;
using lazyprune_test::allocated_bytes, lazyprune_test::allocations, lazyprune_test::failing;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;

/// A scorer that returns the attention of the only head. The test chooses this attention.
struct attended_scores {
  void score(const attention_view& view, std::span<float> out) const { std::ranges::copy(view.head(0), out.begin()); }
};

}  // namespace

TEST_CASE("a scorer of positions prunes before layer 0; dropped tokens can be embedded again, unless the store is none") {
  const auto run = [](auto store, auto kind) {
    lazyprune::session session(policy{random_score{.seed = 3}, stages{{0, 0.6}, {2, 0.5}}, top_k{}, store}, {.layers = 4});
    labelled_engine engine;
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
      const auto plans = engine.step(session, {tokens, step == 0 ? phase::prefill : phase::decode}, [](auto, auto) { return 0.0f; });
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

/// Evidence of each kind. All views show the same memory. `plan` has at most 300 active tokens.
struct evidence_memory {
  std::vector<float> numbers = std::vector<float>(8 * 2 * 300);
  std::vector<float> keys = std::vector<float>(8 * 300);

  void draw(std::uint64_t step, layer_id l) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = as_evidence(hashed_score(1, step, l, i, false));
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = as_evidence(hashed_score(2, step, l, i, false)) + 0.1f;
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

/// Scores a token by the largest number in its hidden state. Tokens without a hidden state in this step rank last.
struct hidden_peak {
  void score(const hidden_view& view, std::span<float> out) const {
    for (std::size_t i = 0, r = 0; i < view.active(); ++i) {
      const bool there = r < view.rows.size() && view.rows[r] == view.positions[i];
      out[i] = there ? std::ranges::max(view.row(r++)) : 0.0f;
    }
  }
};

/// Runs one step. The numbers in `memory` are its evidence. View is the view that the scorer takes.
template <class View, class Session>
void drive(Session& session, std::size_t tokens, phase phase, evidence_memory& memory, std::vector<position>* active = nullptr) {
  auto step = session.begin({tokens, phase});
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
    static_assert(noexcept(step.enter(l))&& noexcept(step.leave())&& noexcept(step.spills()));
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
  CHECK(error_of([&] { session.begin({62, phase::decode}); }) == at("session: begin", {"61", ", found 62"}, error_code::no_room));
}

/// Runs the check in a session of this policy and in an any_session of it.
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

TEST_CASE("reserve and begin change nothing if an allocation fails") {
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
    // A step beyond the reserved number of tokens works: the failed reserve set no limit.
    if (fails_in_begin > 0) tried(fails_in_begin, [&] { (void)session.begin({170, phase::prefill}); });
    if (fails_in_reserve + fails_in_begin > 0 && thrown == 0) return std::tuple(active, session.stats(), thrown);
    drive<attention_view>(session, 170, phase::prefill, memory, &active);
    for (int k = 0; k < 5; ++k) drive<attention_view>(session, 1, phase::decode, memory, &active);
    return std::tuple(active, session.stats(), thrown);
  };
  const auto expected = run(0, 0);
  const auto every = [&](auto&& fail) {  // makes every allocation fail once
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

TEST_CASE("an unfinished step, no tokens and too small a reserve are errors") {
  lazyprune::session session(dense(), {.layers = 2});
  CHECK(error_of([&] { session.begin({0, phase::prefill}); }) == at("session: begin"));
  CHECK(session.known() == 0);
  { [[maybe_unused]] const auto step = session.begin({3, phase::prefill}); }
  CHECK(error_of([&] { session.begin({1, phase::decode}); }) == at("session: begin", {}, error_code::wrong_order));
  CHECK_THROWS_AS(session.reserve(2), error);
  session.reset();
  CHECK(session.known() == 0);
  CHECK_NOTHROW(session.begin({1, phase::prefill}));
  CHECK_THROWS_AS(lazyprune::session(dense(), {.layers = 0}), error);
}

TEST_CASE("errors of a session have the right code") {
  const auto code = [](auto&& work) {
    try {
      work();
    } catch (const error& fault) {
      return fault.code();
    }
    return error_code::io;
  };
  lazyprune::session session(dense(), {.layers = 2, .max_tokens = 4});
  CHECK(code([&] { (void)session.begin({5, phase::prefill}); }) == error_code::no_room);
  CHECK(code([&] { (void)session.begin({0, phase::prefill}); }) == error_code::bad_input);
  CHECK(code([&] {
          (void)session.begin({1, phase::prefill});
          (void)session.begin({1, phase::prefill});
        }) == error_code::wrong_order);
}

TEST_CASE("a call of finish before the last layer, or inside a layer, leaves the step unfinished") {
  const auto refused = [](auto&& work) {
    lazyprune::session session(dense(), {.layers = 2});
    {
      auto step = session.begin({3, phase::prefill});
      work(step);
      step.finish();
    }
    CHECK(error_of([&] { session.begin({1, phase::decode}); }) == at("session: begin", {}, error_code::wrong_order));
    session.reset();
    CHECK_NOTHROW(session.begin({1, phase::prefill}));
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

TEST_CASE("reset forgets the sequence and what the scorer remembers") {
  lazyprune::session session(policy{accumulated_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 3, .max_tokens = 64});
  const auto run = [&] {
    std::vector<std::vector<position>> seen;
    std::vector<float> attention(64);
    for (std::uint64_t k = 0; k < 6; ++k) {
      auto step = session.begin({k == 0 ? 30u : 1u, k == 0 ? phase::prefill : phase::decode});
      for (layer_id l = 0; l < 3; ++l) {
        const layer_plan& plan = step.enter(l);
        seen.emplace_back(plan.active.begin(), plan.active.end());
        CHECK(step.wants_scores() == (l < 2));  // asks at every layer but the last
        for (std::size_t i = 0; i < plan.active.size(); ++i)
          attention[i] = std::abs(as_evidence(hashed_score(5, k, l, plan.active[i], true)));
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

TEST_CASE("the selector decides about all tokens but the query token") {
  struct nothing {
    std::size_t select(const candidates&, std::span<std::uint32_t>) const { return 0; }
  };
  lazyprune::session session(policy{attended_scores{}, stages{{1, 0.5}}, nothing{}, keep_all{}}, {.layers = 2});
  labelled_engine engine;
  const auto plans = engine.step(session, {5}, [](auto, auto) { return 1.0f; });
  CHECK(plans[1].active == std::vector<naive::token>{4});
}

TEST_CASE("margin is the gap at the cut, divided by the least kept score; required tokens do not count") {
  lazyprune::session session(policy{attended_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
  const std::vector<float> scores{0.5f, 0.1f, 0.4f, 0.2f, 0.0f, 0.9f};
  auto step = session.begin({6, phase::prefill});
  const layer_plan& plan = step.enter(0);
  step.leave(attention_view{scores.data(), 1, 6, plan.active});
  CHECK(step.margin() == doctest::Approx((0.4 - 0.2) / 0.4));  // kept: 0, 2 and the query token 5
  const layer_plan& second = step.enter(1);
  CHECK(std::vector(second.active.begin(), second.active.end()) == std::vector<position>{0, 2, 5});
  step.leave();
  CHECK(std::isnan(step.margin()));
  step.finish();
}

TEST_CASE("margin of negative scores, of a tie, and of a selector that keeps lower scores") {
  const auto margin = [](auto selector, const std::vector<float>& scores) {
    lazyprune::session session(policy{attended_scores{}, stages{{1, 0.5}}, selector, keep_all{}}, {.layers = 2});
    auto step = session.begin({scores.size(), phase::prefill});
    const layer_plan& plan = step.enter(0);
    step.leave(attention_view{scores.data(), 1, scores.size(), plan.active});
    return step.margin();
  };
  // Half of the six tokens are kept: two tokens and the query token. The query token is the last one, and its score does not matter.
  CHECK(margin(top_k{}, {-0.5f, -0.1f, -0.4f, -0.2f, -0.9f, -7.0f}) == doctest::Approx((-0.2 - -0.4) / 0.2));
  CHECK(margin(top_k{}, {0.5f, -0.3f, -0.4f, -0.8f, -0.9f, 1.0f}) == doctest::Approx((-0.3 - -0.4) / 0.3));
  CHECK(margin(top_k{}, {0.5f, 0.2f, 0.2f, 0.2f, 0.1f, 1.0f}) == 0.0f);
  CHECK(margin(top_k{}, {0.5f, 0.0f, 0.0f, 0.0f, -0.1f, 1.0f}) == 0.0f);
  CHECK(margin(top_k{}, {-0.5f, -0.5f, -0.5f, -0.5f, -0.5f, 1.0f}) == 0.0f);
  // Two of the three pages of two tokens are kept: the query token's page and the page with the best token (0.9). The kept token with 0.1
  // scores less than the dropped tokens with 0.4, so there is no margin.
  CHECK(std::isnan(margin(blocks{.size = 2}, {0.9f, 0.1f, 0.4f, 0.4f, 0.2f, 0.0f})));
}

namespace {

/// Runs a step of a session that asks for attention. The scores depend only on the layer and the position. Returns the active tokens.
template <class Session>
std::vector<std::vector<position>> attended(Session& session, const step_request& request) {
  auto step = session.begin(request);
  std::vector<std::vector<position>> active;
  std::vector<float> numbers;
  for (layer_id l = 0; l < step.layers(); ++l) {
    const layer_plan& plan = step.enter(l);
    active.emplace_back(plan.active.begin(), plan.active.end());
    numbers.clear();
    for (const position t : plan.active) numbers.push_back(std::abs(as_evidence(hashed_score(9, 1, l, t, true))));
    step.leave(step.wants_scores() ? evidence(attention_view{numbers.data(), 1, numbers.size(), plan.active}) : evidence());
  }
  step.finish();
  return active;
}

}  // namespace

TEST_CASE("outputs are not pruned, and the last layer computes them to the end") {
  lazyprune::session session(policy{attended_scores{}, stages{{1, 0.2}}, top_k{}, keep_all{}}, {.layers = 2});
  const std::vector<float> scores{0.9f, 0.8f, 0.7f, 0.6f, 0.0f, 0.0f, 0.1f, 0.0f};
  auto step = session.begin({.tokens = 8, .outputs = 4});
  const layer_plan& plan = step.enter(0);
  CHECK(plan.output_rows == 8);
  step.leave(attention_view{scores.data(), 1, 8, plan.active});
  const layer_plan& last = step.enter(1);
  CHECK(std::vector(last.active.begin(), last.active.end()) == std::vector<position>{4, 5, 6, 7});
  CHECK(last.output_rows == 4);
  step.leave();
  step.finish();
  CHECK(error_of([&] { session.begin({.tokens = 2, .outputs = 3}); }) == at("session: begin", {"2", ", found 3"}));
  CHECK(session.known() == 8);
}

TEST_CASE("a chunk of the dense model runs all layers, and the last one has no output rows") {
  lazyprune::session session(dense(), {.layers = 3});
  auto step = session.begin({.tokens = 4, .outputs = 0});
  CHECK(step.layers() == 3);
  for (layer_id l = 0; l < 3; ++l) {
    CHECK(step.enter(l).output_rows == (l < 2 ? 4u : 0u));
    step.leave();
    CHECK(step.spills().empty());
  }
  step.finish();
  CHECK(session.tokens().frontier(3) == 3);
  CHECK(session.stats().rows == 12);
  CHECK(session.stats().dense_rows == 12);
}

TEST_CASE("rows of a chunk wait in slots of their own, not in the store") {
  lazyprune::session session(policy{attended_scores{}, stages{{2, 0.5}}, top_k{}, bounded{.rows = 1}}, {.layers = 3});
  auto chunk = session.begin({.tokens = 6, .outputs = 0});
  REQUIRE(chunk.layers() == 2);
  for (layer_id l = 0; l < 2; ++l) {
    chunk.enter(l);
    CHECK(!chunk.wants_scores());
    chunk.leave();
  }
  REQUIRE(chunk.spills().size() == 6);
  CHECK(chunk.spills()[5] == spill{5, 5, row_source::origin::carried, row_source::origin::waiting});
  chunk.finish();
  CHECK(session.tokens().waiting_count() == 6);
  CHECK(session.tokens().stored_count() == 0);
  attended(session, {.tokens = 1});
  CHECK(session.tokens().waiting_count() == 0);
  CHECK(session.tokens().waiting_slots() == 6);
  CHECK(session.tokens().stored_count() == 1);
  CHECK(session.stats().revived == 0);
  CHECK(session.stats().steps == 2);
}

TEST_CASE("abandoning a step before it reads the waiting rows loses nothing of a chunked prompt") {
  const auto read = [](auto store) {
    lazyprune::session session(policy{attended_scores{}, stages{{2, 0.5}}, top_k{}, store}, {.layers = 3});
    attended(session, {.tokens = 6, .outputs = 0});
    lazyprune::session untouched = session;
    auto step = session.begin({.tokens = 1});
    const std::vector<float> scores(7, 1.0f);
    for (layer_id l = 0; l < 2; ++l) {
      const layer_plan& plan = step.enter(l);
      step.wants_scores() ? step.leave(attention_view{scores.data(), 1, 7, plan.active}) : step.leave();
    }
    session.abandon();
    CHECK(session.tokens().waiting_count() == 6);
    CHECK(session.tokens().lost_count() == 0);
    CHECK(attended(session, {.tokens = 1}) == attended(untouched, {.tokens = 1}));
  };
  read(none{});
  read(bounded{.rows = 1});
  read(keep_all{});
}

TEST_CASE("a chunk computes nothing if the policy can prune before layer 0") {
  lazyprune::session session(streaming_llm(1, 3), {.layers = 3});
  auto chunk = session.begin({.tokens = 6, .outputs = 0});
  CHECK(chunk.layers() == 0);
  chunk.finish();
  CHECK(session.known() == 6);
  CHECK(session.tokens().waiting_count() == 0);
  CHECK(attended(session, {.tokens = 1})[0] == std::vector<position>{0, 4, 5, 6});
}

TEST_CASE("if the evidence is hidden states, a chunk stops one layer earlier") {
  const auto depth = [](auto scorer, layer_id after, layer_id layers) {
    lazyprune::session session(policy{scorer, stages{{after, 0.5}}, top_k{}, keep_all{}}, {.layers = layers});
    return session.begin({.tokens = 2, .outputs = 0}).layers();
  };
  CHECK(depth(hidden_peak{}, 3, 8) == 2);
  CHECK(depth(hidden_peak{}, 9, 8) == 8);  // this schedule never prunes
  CHECK(depth(key_norm{}, 3, 8) == 3);
  CHECK(depth(recency{}, 0, 8) == 0);
  CHECK(depth(key_norm{}, 0, 8) == 1);  // a scorer of keys cannot prune before layer 0
}

TEST_CASE("a schedule without first() gives the same plans, but chunks run fewer layers") {
  struct late {
    std::size_t keep(const layer_context& c) const { return c.done == 3 ? (c.active + 1) / 2 : everything; }
  };
  const auto run = [](auto schedule, bool cut) {
    lazyprune::session session(policy{attended_scores{}, schedule, top_k{}, keep_all{}}, {.layers = 5});
    if (cut) attended(session, {.tokens = 12, .outputs = 0});
    auto active = attended(session, {.tokens = cut ? 8u : 20u});
    return std::pair(active, session.stats().rows);
  };
  CHECK(run(late{}, false) == run(late{}, true));
  CHECK(run(stages{{3, 0.5}}, true) == run(late{}, true));
}

TEST_CASE("after many steps, streaming keeps only the 20 tokens that it sees") {
  lazyprune::session session(streaming_llm(4, 16), {.layers = 2});
  std::set<position> held;
  for (int k = 0; k < 1000; ++k) {
    auto step = session.begin({1, k == 0 ? phase::prefill : phase::decode});
    held.insert(static_cast<position>(session.known() - 1));
    for (layer_id l = 0; l < 2; ++l) {
      step.enter(l);
      step.leave();
    }
    step.finish();
    for (const position t : session.losses()) REQUIRE(held.erase(t) == 1);
    REQUIRE(std::ranges::is_sorted(session.losses()));
  }
  CHECK(held.size() == 20);
}

TEST_CASE("losses() lists the losses since the last begin, of tokens that are still known") {
  lazyprune::session session(policy{attended_scores{}, stages{{1, 0.5}, {2, 0.5}}, top_k{}, none{.for_good = true}}, {.layers = 3});
  const auto last = attended(session, {.tokens = 8}).back();
  CHECK(session.losses().size() == 6);
  CHECK(std::ranges::is_sorted(session.losses()));
  for (const position t : session.losses()) CHECK(std::ranges::count(last, t) == 0);
  session.truncate(4);
  for (const position t : session.losses()) CHECK(t < 4);
  CHECK(attended(session, {.tokens = 1, .outputs = 0}).size() == 1);
  CHECK(session.losses().empty());
}

TEST_CASE("pages() lists the pages that hold an active token of the entered layer") {
  lazyprune::session session(policy{attended_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
  const std::vector<float> scores{0.5f, 0.1f, 0.9f, 0.2f, 0.0f, 0.1f, 0.3f, 0.0f, 0.1f, 0.9f};
  auto step = session.begin({10});
  std::vector<std::uint32_t> pages(10);
  CHECK(step.pages(4, pages) == 0);
  const layer_plan& plan = step.enter(0);
  CHECK(step.pages(4, pages) == 3);
  CHECK(step.pages(1, pages) == 10);
  CHECK(step.pages(100, pages) == 1);
  step.leave(attention_view{scores.data(), 1, 10, plan.active});
  CHECK(step.pages(4, pages) == 0);
  step.enter(1);  // the active tokens are 0, 2, 3, 6 and 9
  REQUIRE(step.pages(2, pages) == 4);
  CHECK(std::vector(pages.begin(), pages.begin() + 4) == std::vector<std::uint32_t>{0, 1, 3, 4});
}

TEST_CASE("a copy goes on as the session would, with the same limit; a session with an unfinished step cannot be copied") {
  const policy remembering{accumulated_attention{}, stages{{1, 0.5}, {2, 0.6}}, top_k{}, bounded{.rows = 5}};
  const auto check = [](auto& original, auto copied) {
    attended(original, {.tokens = 20});
    attended(original, {.tokens = 6, .outputs = 0});
    auto copy = copied(original);
    std::vector<std::vector<std::vector<position>>> seen[2];
    for (const step_request& request : {step_request{3}, step_request{1, phase::decode}, step_request{5, phase::prefill, 2}}) {
      seen[0].push_back(attended(original, request));
      seen[1].push_back(attended(copy, request));
    }
    CHECK(seen[0] == seen[1]);
    CHECK(copy.stats() == original.stats());
    CHECK(error_of([&] { (void)copy.begin({7}); }) == at("session: begin", {"most 5", ", found 7"}, error_code::no_room));
    copy.truncate(3);
    CHECK(original.known() == 35);
    (void)copy.begin({1});
    CHECK_THROWS_AS((void)copied(copy), error);
  };
  lazyprune::session session(remembering, {.layers = 3, .max_tokens = 40});
  check(session, [](const auto& s) { return s; });
  any_session erased(remembering, {.layers = 3, .max_tokens = 40});
  check(erased, [](const auto& s) { return s.clone(); });
}

TEST_CASE("a copy reserves its room at once, and sessions can share one scratch") {
  selection_scratch scratch;
  const policy hard{attended_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}};
  lazyprune::session one(hard, {.layers = 3, .max_tokens = 100, .scratch = &scratch});
  lazyprune::session other(hard, {.layers = 3, .max_tokens = 300, .scratch = &scratch});
  CHECK(scratch.kept.size() == 300);
  lazyprune::session copy = one;
  evidence_memory memory;
  for (auto* s : {&one, &other, &copy}) drive<attention_view>(*s, 50, phase::prefill, memory);
  const std::size_t before = allocations;
  for (int k = 0; k < 30; ++k)
    for (auto* s : {&one, &other, &copy}) drive<attention_view>(*s, 1, phase::decode, memory);
  CHECK(allocations == before);
  CHECK(one.stats() == other.stats());
  CHECK(one.stats() == copy.stats());
}

TEST_CASE("after reserve, calls between steps and chunks allocate nothing") {
  lazyprune::session session(policy{accumulated_attention{}, stages{{2, 0.5}}, top_k{}, bounded{.rows = 9}},
                             {.layers = 4, .max_tokens = 200});
  evidence_memory memory;
  const std::size_t before = allocations;
  for (int k = 0; k < 5; ++k) {
    for (const std::size_t outputs : {0u, 0u, 7u}) {
      auto step = session.begin({.tokens = 20, .outputs = outputs});
      for (layer_id l = 0; l < step.layers(); ++l) {
        const layer_plan& plan = step.enter(l);
        step.leave(step.wants_scores() ? evidence(memory.look<attention_view>(plan, 1)) : evidence());
      }
      step.finish();
    }
    (void)session.begin({.tokens = 5});
    session.abandon();
    session.adopt(10);
    session.truncate(static_cast<std::size_t>(k) * 10);
  }
  session.reset();
  CHECK(allocations == before);
}

TEST_CASE("a session reserves bytes_per_token for each token") {
  CHECK(step_machine::bytes_per_token == 57);
  CHECK(selection_scratch::bytes_per_token == 28);
  constexpr std::size_t tokens = 100'000, fixed = 64;  // reserve allocates exactly the room that is asked for
  const auto reserved = [](auto policy, selection_scratch* scratch) {
    lazyprune::session session(policy, {.layers = 4, .scratch = scratch});
    const std::size_t before = allocated_bytes;
    session.reserve(tokens);
    return allocated_bytes - before;
  };
  selection_scratch shared;
  shared.reserve(tokens);
  const policy plain{last_query_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}};
  CHECK(reserved(plain, &shared) / fixed == tokens * 57 / fixed);
  CHECK(reserved(plain, nullptr) / fixed == tokens * (57 + 28) / fixed);
  const policy remembering{accumulated_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}};
  CHECK(reserved(remembering, &shared) / fixed == tokens * (57 + 4) / fixed);
}

TEST_CASE("after abandon, the first step of a sequence runs as if nothing had happened") {
  struct counting {
    int calls = 0;
    void score(const attention_view& view, std::span<float> out) {
      ++calls;
      for (std::size_t i = 0; i < view.active(); ++i) out[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(calls) * 3) % 11);
    }
  };
  lazyprune::session session(policy{counting{}, stages{{1, 0.5}, {2, 0.5}}, top_k{}, bounded{3}}, {.layers = 3});
  lazyprune::session untouched = session;
  {
    auto step = session.begin({10});
    for (layer_id l = 0; l < 2; ++l) {
      const layer_plan& plan = step.enter(l);
      const std::vector<float> numbers(plan.active.size(), 1.0f);
      step.leave(attention_view{numbers.data(), 1, numbers.size(), plan.active});
    }
  }
  session.abandon();
  CHECK(session.known() == 0);
  CHECK(session.stats().dense_rows == 0);
  CHECK(session.stats().steps == 0);
  CHECK(session.tokens().slots() == 0);
  session.abandon();  // there is no step to give up
  for (const step_request& request : {step_request{10}, step_request{1, phase::decode}})
    CHECK(attended(session, request) == attended(untouched, request));
}

TEST_CASE("truncate(0) is reset, but keeps the statistics") {
  lazyprune::session session(policy{accumulated_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 3});
  const auto once = attended(session, {.tokens = 12});
  const statistics stats = session.stats();
  session.truncate(0);
  CHECK(session.known() == 0);
  CHECK(session.tokens().slots() == 0);
  CHECK(session.stats() == stats);
  CHECK(attended(session, {.tokens = 12}) == once);
  CHECK(error_of([&] { session.truncate(13); }) == at("session: truncate", {"12", ", found 13"}));
}

TEST_CASE("truncating tokens whose steps changed no other tokens leaves no trace of the truncated tokens") {
  const policy method{attended_scores{}, prompt_only{stages{{1, 0.5}}}, top_k{}, none{}};  // after the prompt nothing is pruned
  lazyprune::session session(method, {.layers = 3}), other(method, {.layers = 3});
  for (auto* s : {&session, &other}) attended(*s, {.tokens = 12});
  attended(session, {.tokens = 5, .phase = phase::decode, .outputs = 5});
  session.truncate(14);
  attended(other, {.tokens = 2, .phase = phase::decode, .outputs = 2});
  for (int k = 0; k < 4; ++k) CHECK(attended(session, {1, phase::decode}) == attended(other, {1, phase::decode}));
}

TEST_CASE("adopted tokens have keys at all layers") {
  lazyprune::session session(policy{accumulated_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 3, .max_tokens = 20});
  session.adopt(12);
  CHECK(session.known() == 12);
  CHECK(session.stats() == lazyprune::session(dense(), {.layers = 3}).stats());
  CHECK(error_of([&] { session.adopt(9); }) == at("session: adopt", {"most 8", ", found 9"}, error_code::no_room));
  auto step = session.begin({2});
  for (layer_id l = 0; l < 3; ++l) {
    const layer_plan& plan = step.enter(l);
    CHECK(std::vector(plan.rows.begin(), plan.rows.end()).front() >= 12);
    const std::vector<float> numbers(plan.active.size(), 1.0f);
    step.leave(step.wants_scores() ? evidence(attention_view{numbers.data(), 1, numbers.size(), plan.active}) : evidence());
  }
  step.finish();
}

TEST_CASE("finish reports a window with another number of queries") {
  const std::vector<float> numbers(64, 0.5f);
  for (const std::size_t queries : {2u, 3u, 4u}) {
    lazyprune::session session(policy{window_attention{.window = 3}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
    auto step = session.begin({5});
    const layer_plan& plan = step.enter(0);
    REQUIRE(step.window() == 3);
    step.leave(window_view{numbers.data(), queries, 1, 5, plan.active});
    step.enter(1);
    step.leave();
    const auto found = error_of([&] { step.finish(); });
    if (queries == 3)
      CHECK(!found.code);
    else
      CHECK(found == at("session: finish", {"layer 0", "another number of tokens or queries"}, error_code::wrong_order));
  }
}

TEST_CASE("a schedule that sees the scores is not asked where there are none") {
  struct counting {
    std::size_t* asked;
    std::size_t keep(const layer_context&, std::span<const float>) const {
      ++*asked;
      return everything;
    }
  };
  std::size_t asked = 0;
  lazyprune::session session(policy{last_query_attention{}, counting{&asked}, top_k{}, keep_all{}}, {.layers = 2});
  auto step = session.begin({4});
  step.enter(0);
  CHECK(step.wants_scores());
  step.leave();  // the evidence is missing
  CHECK(asked == 0);
}

TEST_CASE("only scorers of windows at every layer have an evidence window") {
  const auto window = [](auto scorer) {
    return lazyprune::session(policy{scorer, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2}).evidence_window();
  };
  CHECK(window(last_query_attention{}) == 0);
  CHECK(window(accumulated_attention{}) == 0);
  CHECK(window(window_attention{.window = 3}) == 0);
  CHECK(window(prompt_window_attention{.window = 3}) == 3);
}

TEST_CASE("finish reports evidence that is missing or has another kind or size") {
  const std::vector<float> numbers(64, 1.0f);
  const auto left_with = [&](const char* found, auto&& leave) {
    lazyprune::session session(policy{last_query_attention{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = 2});
    auto step = session.begin({4});
    const layer_plan& plan = step.enter(0);
    REQUIRE(step.wants() == evidence_kind::attention);
    leave(step, plan);
    CHECK(step.enter(1).active.size() == 4);  // nothing was pruned
    step.leave();
    CHECK(error_of([&] { step.finish(); }) == at("session: finish", {"layer 0", "attention", found}, error_code::wrong_order));
    CHECK(session.stats().steps == 0);
    CHECK_THROWS_AS((void)session.begin({1}), error);
    session.abandon();
    CHECK_NOTHROW((void)session.begin({1}));
  };
  left_with("no evidence", [](auto& step, const layer_plan&) { step.leave(); });
  left_with("keys", [&](auto& step, const layer_plan& plan) { step.leave(evidence(key_view{numbers.data(), 1, 4, 4, plan.active})); });
  left_with("another number of tokens or queries", [&](auto& step, const layer_plan& plan) {
    step.leave(attention_view{numbers.data(), 1, 3, plan.active.first(3)});
  });
}

TEST_CASE("a scorer of ids sees the ids of all known tokens, pruned ones included") {
  struct rarest {
    void score(const id_view& text, std::span<float> out) const {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.0f / static_cast<float>(std::ranges::count(text.ids, text(i)));
    }
  };
  lazyprune::session session(policy{rarest{}, stages{{1, 0.5}, {2, 0.5}}, top_k{}, keep_all{}}, {.layers = 3});
  const std::vector<token_id> ids{4, 4, 7, 4, 8, 7, 4, 4};
  auto step = session.begin({ids.size()});
  for (layer_id l = 0; l < 3; ++l) {
    const std::span<const position> active = step.enter(l).active;
    if (l == 1) CHECK(std::vector(active.begin(), active.end()) == std::vector<position>{2, 4, 5, 7});
    if (l == 2) CHECK(std::vector(active.begin(), active.end()) == std::vector<position>{4, 7});
    if (step.wants() == evidence_kind::ids)
      step.leave(id_view{ids, active});
    else
      step.leave();
  }
  step.finish();

  auto next = session.begin({1, phase::decode});
  next.enter(0);
  next.leave(id_view{ids, {}});  // the id of the new token is missing
  next.enter(1);
  next.leave();
  next.enter(2);
  next.leave();
  CHECK_THROWS_AS(next.finish(), error);
}

namespace {

/// Returns the error of `finish` for a step in which only the policy may be wrong. After an error, checks that nothing was dropped, and
/// that the session can go on after the step is abandoned.
template <class Policy>
fault said_of(const Policy& parts, const step_request& request, std::vector<std::vector<position>>* active = nullptr) {
  lazyprune::session session(parts, {.layers = 4});
  auto step = session.begin(request);
  std::vector<float> numbers;
  for (layer_id l = 0; l < step.layers(); ++l) {
    const layer_plan& plan = step.enter(l);
    if (active) active->emplace_back(plan.active.begin(), plan.active.end());
    numbers.clear();
    for (const position t : plan.active) numbers.push_back(static_cast<float>((t * 5 + 3) % 7));
    step.leave(step.wants_scores() ? evidence(attention_view{numbers.data(), 1, numbers.size(), plan.active}) : evidence());
  }
  const fault before = error_of([&] { step.check_finish(); });  // check_finish must throw the same error as finish, and change nothing
  const fault said = error_of([&] { step.finish(); });
  CHECK(before == said);
  CHECK(before.code == said.code);
  if (said.code) {
    CHECK(session.stats().steps == 0);
    CHECK(session.tokens().lost_count() == 0);
    CHECK_THROWS_AS((void)session.begin({1}), error);
    session.abandon();
    CHECK(session.known() == 0);
  }
  return said;
}

/// A selector and store that writes a fixed list for any candidates.
struct writes {
  std::vector<std::uint32_t> indices;
  std::size_t announced;
  explicit writes(std::vector<std::uint32_t> list) : indices(std::move(list)), announced(indices.size()) {}
  writes(std::vector<std::uint32_t> list, std::size_t count) : indices(std::move(list)), announced(count) {}

  std::size_t write(std::span<std::uint32_t> kept) const {
    std::ranges::copy(indices, kept.begin());
    return announced;
  }
  std::size_t select(const candidates&, std::span<std::uint32_t> kept) const { return write(kept); }
  std::size_t admit(const stored_rows&, std::span<std::uint32_t> kept) const { return write(kept); }
};

}  // namespace

TEST_CASE("a wrong list of a selector drops nothing, and finish reports it") {
  const auto said = [](const writes& selector) {
    std::vector<std::vector<position>> active;
    const fault text = said_of(policy{attended_scores{}, stages{{2, 0.5}}, selector, keep_all{}}, {6}, &active);
    if (text.code) CHECK(active[2].size() == 6);
    return text;
  };
  const auto wrong = [](std::string found) { return at("session: finish", {"below 6", "selector", "layer 1", ", found " + found}); };
  CHECK(said(writes({0, 2, 4})) == "no error");
  CHECK(said(writes({})) == "no error");
  CHECK(said(writes({4, 2, 0})) == wrong("2 after 4"));           // ordered by score
  CHECK(said(writes({5, 4, 3, 2, 1, 0})) == wrong("4 after 5"));  // all of them, but descending
  CHECK(said(writes({1, 1})) == wrong("1 after 1"));
  CHECK(said(writes({0, 6})) == wrong("6"));
  CHECK(said(writes({0, 1}, 7)) == wrong("7 of them"));
}

TEST_CASE("a wrong list of a store loses nothing, and finish reports it") {
  const auto said = [](const writes& store) { return said_of(policy{attended_scores{}, stages{{2, 0.5}}, top_k{}, store}, {6}); };
  const auto wrong = [](std::string found) { return at("session: finish", {"below 3", "store", "layer 1", ", found " + found}); };
  CHECK(said(writes({0, 1, 2})) == "no error");
  CHECK(said(writes({2, 0})) == wrong("0 after 2"));
  CHECK(said(writes({0, 3})) == wrong("3"));
  CHECK(said(writes({}, 4)) == wrong("4 of them"));
}

TEST_CASE("finish reports a schedule that prunes earlier than its first() says") {
  struct too_late : every {
    layer_id first(phase, layer_id) const { return 3; }
  };
  const auto said = [](std::size_t n) {
    return said_of(policy{attended_scores{}, too_late{{.n = n, .share = 0.5}}, top_k{}, keep_all{}}, {8});
  };
  CHECK(said(2) == at("session: finish", {"before 3", "layer 1"}));
  CHECK(said(3) == "no error");
}

TEST_CASE("finish reports a schedule that prunes after a layer that its prunes_after() denies") {
  struct denying : every {
    bool prunes_after(layer_id done, phase, layer_id) const { return done != 2; }
  };
  CHECK(said_of(policy{attended_scores{}, denying{{.n = 2, .share = 0.5}}, top_k{}, keep_all{}}, {8}) ==
        at("session: finish", {"prunes_after", "layer 1"}));
}

namespace {

/// Has its own score, so it may remember something from one step to the next.
struct remembering_heads : calibrated_attention {
  void score(const every_layer<probe_view>& view, std::span<float> out) const { calibrated_attention::score(view, out); }
};

}  // namespace

TEST_CASE("a scorer of one step is shown nothing after the last layer at which the schedule prunes by scores in this step") {
  const calibrated_attention heads{.window = 4,
                                   .chosen = calibration::read("2.0.0.last.max@1/2.1.0.last.max@1/4.2.0.last.max@1/6.5.0.last.max@1")};
  const std::vector<float> attention(64, 0.5f);
  std::size_t revived = 0;
  const auto layers_with_probes = [&](auto scorer, auto schedule, phase last) {
    lazyprune::session session(policy{scorer, schedule, top_k{}, keep_all{}}, {.layers = 8});
    std::vector<layer_id> with_probes;
    for (const step_request request : {step_request{20, phase::prefill}, step_request{1, phase::decode}}) {
      if (request.phase == phase::decode && last == phase::prefill) break;
      with_probes.clear();
      lazyprune::step step = session.begin(request);
      for (layer_id l = 0; l < 8; ++l) {
        const layer_plan& plan = step.enter(l);
        if (!step.wants_scores()) {
          step.leave();
          continue;
        }
        with_probes.push_back(l);
        step.leave(probe_view{attention.data(), step.probes().size(), plan.active.size(), plan.active});
      }
      step.finish();
    }
    revived = session.stats().revived;
    return with_probes;
  };
  using list = std::vector<layer_id>;
  const stages early{{2, 0.5}}, late{{2, 0.5}, {6, 0.5}};
  CHECK(layers_with_probes(heads, early, phase::prefill) == list{0, 1});
  CHECK(layers_with_probes(heads, late, phase::prefill) == list{0, 1, 2, 5});
  CHECK(layers_with_probes(heads, stages{{3, 0.5}}, phase::prefill) == list{0, 1, 2});
  CHECK(layers_with_probes(heads, early, phase::decode) == list{0, 1});
  CHECK(layers_with_probes(any_scorer(heads), early, phase::decode) == list{0, 1});
  CHECK(layers_with_probes(heads, prompt_sets{late}, phase::prefill) == list{0, 1, 2, 5});
  CHECK(layers_with_probes(heads, prompt_sets{late}, phase::decode) == list{});
  CHECK(layers_with_probes(heads, prompt_only{late}, phase::decode) == list{});
  CHECK(layers_with_probes(heads, at_least{late, 21}, phase::prefill) == list{0, 1, 2, 5});  // the answer must be right for every length

  // A schedule that sees scores is always asked, and so is a scorer that may remember.
  CHECK(layers_with_probes(heads, prompt_sets{adaptive{.from = 2, .mass = 0.5}}, phase::decode) == list{0, 1, 2, 5});
  CHECK(revived == 0);
  CHECK(layers_with_probes(remembering_heads{heads}, prompt_only{early}, phase::decode) == list{0, 1, 2, 5});
}

TEST_CASE("a scorer's parameters can decide whether it remembers earlier steps") {
  const accumulated_attention of_sequence{}, of_step{.since = memory_span::step};
  const auto session_of = [](any_scorer scorer, any_schedule schedule = prompt_only{stages{{2, 0.5}}}) {
    return any_session(policy{std::move(scorer), std::move(schedule), top_k{}, keep_all{}}, {.layers = 4});
  };
  CHECK(session_of(of_sequence).remembers());
  CHECK(!session_of(of_step).remembers());
  CHECK(session_of(prompt_window_attention{}).remembers());
  CHECK(!session_of(calibrated_attention{}).remembers());
  CHECK(!session_of(last_query_attention{}).remembers());

  const auto layers_with_attention = [&](any_scorer scorer, any_schedule schedule) {
    any_session session = session_of(std::move(scorer), std::move(schedule));
    const std::vector<float> attention(9, 0.25f);
    std::vector<layer_id> shown;
    for (const step_request request : {step_request{8}, step_request{1, phase::decode}}) {
      auto step = session.begin(request);
      for (layer_id l = 0; l < 4; ++l) {
        const layer_plan& plan = step.enter(l);
        if (step.wants_scores()) shown.push_back(l);
        step.leave(step.wants_scores() ? evidence(attention_view{attention.data(), 1, 9, plan.active}) : evidence{});
      }
      step.finish();
    }
    return shown;
  };
  using list = std::vector<layer_id>;
  const prompt_only only{stages{{2, 0.5}}};
  const prompt_sets kept{stages{{2, 0.5}}};
  CHECK(layers_with_attention(of_sequence, only) == list{0, 1, 2, 0, 1, 2});
  CHECK(layers_with_attention(of_sequence, kept) == list{0, 1, 2, 0, 1, 2});
  for (const any_schedule& schedule : {any_schedule(only), any_schedule(kept)}) {
    CHECK(layers_with_attention(of_step, schedule) == list{0, 1});
    CHECK(layers_with_attention(last_query_attention{}, schedule) == list{1});
  }
}

TEST_CASE("evidence that is not finite prunes nothing, and finish names the token") {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto said = [&](auto scorer, position wrong, float number, auto shown) {
    lazyprune::session session(policy{scorer, stages{{1, 0.5}}, top_k{}, none{}}, {.layers = 2});
    std::vector<float> numbers(5 * 4, 0.25f);
    auto step = session.begin({5});
    const layer_plan& plan = step.enter(0);
    shown(step, plan, numbers, wrong, number);
    CHECK(step.enter(1).active.size() == 5);
    step.leave();
    const fault told = error_of([&] { step.finish(); });
    if (told.code) {
      session.abandon();
      CHECK(session.known() == 0);
    }
    return told;
  };
  const auto attention = [](auto& step, const layer_plan& plan, std::vector<float>& numbers, position wrong, float number) {
    numbers[5 + wrong] = number;  // in the second head
    step.leave(attention_view{numbers.data(), 2, 5, plan.active});
  };
  CHECK(said(last_query_attention{}, 3, infinity, attention) ==
        at("session: finish", {"layer 0", "attention", ", found inf", "position 3"}));
  CHECK(said(last_query_attention{}, 0, -infinity, attention) ==
        at("session: finish", {"layer 0", "attention", ", found -inf", "position 0"}));
  CHECK(said(last_query_attention{}, 4, std::numeric_limits<float>::quiet_NaN(), attention) ==
        at("session: finish", {"layer 0", "attention", "nan", "position 4"}));
  CHECK(said(key_norm{}, 2, infinity, [](auto& step, const layer_plan& plan, std::vector<float>& numbers, position wrong, float number) {
          numbers[4 * wrong + 1] = number;
          step.leave(key_view{numbers.data(), 2, 2, 4, plan.active});
        }) == at("session: finish", {"layer 0", "keys", ", found inf", "position 2"}));
}

TEST_CASE("the latest tokens with a score of +inf fill the budget, and the query token always stays") {
  for (const std::size_t n : {93u, 307u, 5u}) {
    CAPTURE(n);
    struct infinite {  // the first `count` tokens score +inf, the others NaN
      std::size_t count;
      void score(const token_view& view, std::span<float> out) const {
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = view.positions[i] < count ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      }
    };
    lazyprune::session session(policy{infinite{n}, stages{{1, 0.1}}, top_k{}, bounded{.rows = 20}}, {.layers = 2});
    labelled_engine engine;
    const auto plans = engine.step(session, {307}, [](auto, auto) { return 0.0f; });
    std::vector<naive::token> kept;
    constexpr unsigned query = 306, budget = 31;  // a tenth of 307
    const auto infinite_ones = std::min(static_cast<unsigned>(n), query);
    for (unsigned t = 0; t < query; ++t) {
      const bool last_of_infinite = t < infinite_ones && infinite_ones - t < budget;
      const bool last_of_others = t >= infinite_ones && query - t + infinite_ones < budget;
      if (last_of_infinite || last_of_others) kept.push_back(t);
    }
    kept.push_back(query);
    CHECK(kept.size() == budget);
    CHECK(plans[1].active == kept);
    CHECK(session.tokens().stored_count() == 20);
  }
}

TEST_CASE("make_room reserves memory but neither sets nor changes the limit") {
  const policy plain{attended_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}};
  lazyprune::session session(plain, {.layers = 3});
  session.make_room(40);
  evidence_memory memory;
  std::size_t before = allocations;
  drive<attention_view>(session, 40, phase::prefill, memory);
  CHECK(allocations == before);
  drive<attention_view>(session, 60, phase::prefill, memory);
  CHECK(session.known() == 100);

  lazyprune::session limited(plain, {.layers = 3, .max_tokens = 30});
  limited.make_room(10);
  CHECK(limited.limit() == 30);
  limited.make_room(1000);  // makes room only up to the limit
  CHECK(limited.limit() == 30);
  CHECK(lazyprune::session(limited).limit() == 30);
  CHECK_THROWS_AS((void)limited.begin({31}), error);
  before = allocations;
  drive<attention_view>(limited, 30, phase::prefill, memory);
  CHECK(allocations == before);

  lazyprune::session begun(plain, {.layers = 3});
  auto step = begun.begin({.tokens = 4});
  step.enter(0);
  CHECK(error_of([&] { begun.make_room(10'000); }) == at("session: make_room", {}, error_code::wrong_order));  // it would move the plan
}

TEST_CASE("a session that takes over more slots than it reserves for tokens, and a copy of it, allocate nothing in a step") {
  const policy plain{attended_scores{}, stages{{1, 0.5}}, top_k{}, keep_all{}};
  lazyprune::session chunked(plain, {.layers = 3});
  evidence_memory memory;
  {
    auto chunk = chunked.begin({.tokens = 100, .outputs = 0});
    chunk.enter(0);
    chunk.leave();
    chunk.finish();
  }
  chunked.truncate(10);
  lazyprune::session small(plain, {.layers = 3, .max_tokens = 20});
  small.take_over(chunked);
  lazyprune::session copy(small);
  const std::size_t before = allocations;
  drive<attention_view>(small, 1, phase::prefill, memory);
  drive<attention_view>(copy, 1, phase::prefill, memory);
  CHECK(allocations == before);
}
