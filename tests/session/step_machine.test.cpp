// SPDX-License-Identifier: MIT
#include <lazyprune/session/step_machine.hpp>

#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include <fault.hpp>
#include "../test_data.hpp"
#include "random_walk.hpp"

namespace {

using namespace lazyprune;
using random_walk::events;

/// The walks of a store must meet more than this many events of each kind. The number shrinks with the default number of walks.
const std::size_t often = 100 / one_in(std::size_t{4});

/// The number of walks with each of the five stores. The environment variable LAZYPRUNE_WALKS can set another total for all stores, for
/// example more walks than the suite has time for.
std::uint32_t walks_of_each_store() {
  const char* asked = std::getenv("LAZYPRUNE_WALKS");
  return asked ? static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10)) / 5 : 1000 / one_in(4u);
}

template <class Store, class Rules>
events walks(Store store, Rules rules) {
  events seen;
  for (std::uint32_t seed = 1; seed <= walks_of_each_store(); ++seed)
    random_walk::walk(seed, std::mt19937(seed), store(seed, seen), rules(seed), seen).go(16);
  for (const std::size_t count : {seen.waited, seen.abandoned, seen.truncated, seen.adopted, seen.cloned, seen.outputs, seen.taken_over,
                                  seen.not_taken_over, seen.gathered, seen.probed, seen.not_probed, seen.with_keys})
    CHECK(count > often);
  return seen;
}

}  // namespace

TEST_CASE("random walks agree with the naive session: keep_all") {
  const events seen = walks([](auto, auto&) { return any_store(keep_all{}); },
                            [](auto) { return naive::rules{.layers = 0, .count = {}, .store = naive::rules::keep_all}; });
  CHECK(seen.revived > often);
  CHECK(seen.moved > often);
  CHECK(seen.abandoned_unsaved > often);
  CHECK(seen.losses == 0);
}

TEST_CASE("random walks agree with the naive session: bounded") {
  const auto rows = [](std::uint32_t seed) { return std::size_t{1 + seed % 9}; };
  const events seen =
      walks([&](auto seed, auto&) { return any_store(bounded{rows(seed)}); },
            [&](auto seed) { return naive::rules{.layers = 0, .count = {}, .store = naive::rules::bounded, .store_rows = rows(seed)}; });
  CHECK(seen.revived > often);
  CHECK(seen.moved > often);
}

TEST_CASE("random walks agree with the naive session: none") {
  const events seen = walks([](auto, auto&) { return any_store(none{}); },
                            [](auto) { return naive::rules{.layers = 0, .count = {}, .store = naive::rules::none}; });
  CHECK(seen.losses > often);
}

TEST_CASE("random walks agree with the naive session: none, for good") {
  const events seen = walks([](auto, auto&) { return any_store(none{.for_good = true}); },
                            [](auto) { return naive::rules{.layers = 0, .count = {}, .store = naive::rules::for_good}; });
  CHECK(seen.losses > 10 * often);
}

TEST_CASE("random walks agree with the naive session: a store that refuses stored rows, and rows about to be read") {
  const events seen = walks(
      [](auto, auto& counted) { return any_store(random_walk::by_hash{&counted.refused_reads}); },
      [](auto) { return naive::rules{.layers = 0, .count = {}, .store = naive::rules::chosen, .admits = random_walk::by_hash::admits}; });
  CHECK(seen.refused_reads > often);
  CHECK(seen.moved > often);
}

namespace {

using lazyprune_test::at;
using lazyprune_test::error_of;

auto session_of(layer_id layers, std::size_t max_tokens = 0) {
  return session(policy{recency{}, stages{{1, 0.5}}, top_k{}, keep_all{}}, {.layers = layers, .max_tokens = max_tokens});
}

/// Runs a whole step of a policy that needs no evidence, and returns it.
auto run(auto& session, const step_request& request) {
  auto step = session.begin(request);
  for (layer_id l = 0; l < step.layers(); ++l) {
    step.enter(l);
    step.leave();
  }
  step.finish();
  return step;
}

}  // namespace

TEST_CASE("the limit is the reserved number of tokens, or 2^32 - 2") {
  auto session = session_of(2);
  CHECK(session.limit() == 0xffff'fffe);
  session.adopt(3);
  CHECK(error_of([&] { session.reserve(2); }) == at("session: reserve", {"3 known", "2"}));
  CHECK(error_of([&] { session.reserve(0xffff'ffff); }) == at("session: reserve", {"4294967295"}));
  CHECK(session.limit() == 0xffff'fffe);
  session.reserve(3);
  CHECK(session.limit() == 3);
  session.reserve(0);
  CHECK(session.limit() == 0xffff'fffe);
  CHECK(error_of([&] { session.reserve(1); }) == at("session: reserve", {"3 known", ", found 1"}));
  CHECK(session_of(2, 1).limit() == 1);
}

TEST_CASE("take_over refuses unfinished steps, another number of layers, and tokens that are too deep") {
  const auto refused = [](auto to, const auto& from) { return error_of([&] { to.take_over(from); }); };
  auto read = session_of(4);
  run(read, {.tokens = 2, .outputs = 0});
  auto unfinished = read, begun = session_of(4);
  static_cast<void>(unfinished.begin({.tokens = 1}));
  auto to = session_of(4);
  CHECK(error_of([&] { to.take_over(unfinished); }) == at("session: take_over", {}, error_code::wrong_order));
  static_cast<void>(begun.begin({.tokens = 1}));
  CHECK(error_of([&] { begun.take_over(read); }) == at("session: take_over", {}, error_code::wrong_order));
  CHECK(refused(session_of(5), read) == at("session: take_over", {"4 and not 5"}));
  CHECK(!refused(session_of(4), read).code);
  read.adopt(1);
  CHECK(refused(session_of(4), read) == at("session: take_over", {"token 2 after layer 4"}));
}

TEST_CASE("a layer entered after the last one has an empty plan, and abandon ends the step") {
  auto session = session_of(3);
  for (const std::size_t outputs : {0u, 1u}) {
    auto step = session.begin({.tokens = 4, .outputs = outputs});
    for (layer_id l = 0; l < step.layers(); ++l) {
      CHECK(!step.enter(l).active.empty());
      step.leave();
    }
    CHECK(step.enter(step.layers()).active.empty());
    step.finish();
    CHECK(error_of([&] { static_cast<void>(session.begin({.tokens = 1})); }) == at("session: begin", {}, error_code::wrong_order));
    session.abandon();
    CHECK(session.known() == 0);
  }
}

TEST_CASE("a call during a step says how many layers were left, or that the step is unfinished") {
  const auto refused = [](auto& session) { return error_of([&] { static_cast<void>(session.begin({.tokens = 1})); }); };
  const auto too_few = [](std::string left) {
    return at("session: begin", {"all 3 layers", ", found leave() of " + left}, error_code::wrong_order);
  };
  const auto unfinished = at("session: begin", {"expected finish()", "an unfinished step"}, error_code::wrong_order);
  auto session = session_of(3);
  auto step = session.begin({.tokens = 4});
  CHECK(refused(session) == too_few("0"));
  step.enter(0);
  CHECK(refused(session) == too_few("0"));
  step.leave();
  step.finish();  // too early
  CHECK(refused(session) == too_few("1"));
  session.abandon();
  step.enter(1);  // of a step that was given up
  CHECK(refused(session) == unfinished);
  session.abandon();
  step = session.begin({.tokens = 4});
  for (layer_id l = 0; l < 3; ++l) {
    step.enter(l);
    step.leave();
  }
  CHECK(refused(session) == unfinished);
  step.finish();
  CHECK(!refused(session).code);
}

TEST_CASE("abandon forgets a call that was out of order after a finished step") {
  auto session = session_of(3);
  auto step = run(session, {.tokens = 4});
  CHECK(step.enter(0).active.empty());
  CHECK(error_of([&] { static_cast<void>(session.begin({.tokens = 1})); }) == at("session: begin", {}, error_code::wrong_order));
  session.abandon();
  CHECK(session.known() == 4);
  CHECK(!error_of([&] { run(session, {.tokens = 1}); }).code);
}

TEST_CASE("truncate to one token leaves the effects of the steps, truncate(0) does not") {
  auto session = session_of(3);
  run(session, {.tokens = 4});
  session.truncate(1);
  CHECK(session.queried());
  session.truncate(0);
  CHECK(!session.queried());
}
