// SPDX-License-Identifier: MIT
#include <lazyprune/session/step_machine.hpp>

#include <lazyprune/lazyprune.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

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
