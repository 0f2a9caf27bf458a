// SPDX-License-Identifier: MIT
#include <lazyprune/policy/all.hpp>

#include <doctest/doctest.h>

#include <lazyprune/core/concepts.hpp>

namespace {

using namespace lazyprune;

/// Returns to how many of the four kinds P belongs: scorer, schedule, selector, store.
template <class P>
std::size_t kinds() {
  return std::size_t{importance_scorer<P>} + any_kind_of_schedule<P> + token_selector<P> + aux_store<P>;
}

template <class... Policies>
bool each_of_one_kind(part_list<Policies...>) {
  return ((kinds<Policies>() == 1) && ...);
}

template <class P>
bool keeps_everything() {
  constexpr layer_context context{.done = 3, .layers = 8, .active = 100, .known = 100, .step = phase::prefill};
  const std::size_t count = P{}.keep(context);
  return count == everything || count == 100;
}

}  // namespace

TEST_CASE("each part in all_policies is of exactly one kind") { CHECK(each_of_one_kind(all_policies{})); }

TEST_CASE("a schedule with default values prunes nothing") {
  CHECK(keeps_everything<every>());
  CHECK(keeps_everything<linear>());
  CHECK(keeps_everything<cosine>());
  CHECK(keeps_everything<budget>());
}
