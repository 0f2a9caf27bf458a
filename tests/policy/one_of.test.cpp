// SPDX-License-Identifier: MIT
#include <lazyprune/policy/one_of.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/schedule/adaptive.hpp>
#include <lazyprune/policy/schedule/every.hpp>
#include <lazyprune/policy/schedule/stages.hpp>
#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include <lazyprune/policy/store/bounded.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

using layer_schedule_choice = one_of<stages, every>;
using any_schedule_choice = one_of<stages, adaptive>;
using selector_choice = one_of<top_k, top_p, protect<top_k>>;
using store_choice = one_of<keep_all, bounded, none>;

// Of one kind, and of no other.
static_assert(layer_schedule<layer_schedule_choice> && !adaptive_schedule<layer_schedule_choice>);
static_assert(adaptive_schedule<any_schedule_choice> && !layer_schedule<any_schedule_choice>);
static_assert(!token_selector<any_schedule_choice> && !aux_store<any_schedule_choice>);
static_assert(token_selector<selector_choice> && !aux_store<selector_choice> && !layer_schedule<selector_choice>);
static_assert(aux_store<store_choice> && !token_selector<store_choice> && !adaptive_schedule<store_choice>);
static_assert(!std::constructible_from<store_choice, top_k>);

struct layer_schedules {
  static std::vector<layer_schedule_choice> all() { return {stages{{2, 0.5}}, every{.n = 3, .share = 0.5}}; }
};
struct any_schedules {
  static std::vector<any_schedule_choice> all() { return {stages{{2, 0.5}}, adaptive{}}; }
};
struct nested_schedules {
  static std::vector<one_of<any_schedule_choice, every>> all() { return {any_schedule_choice(adaptive{}), every{.n = 3, .share = 0.5}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, layer_schedules, any_schedules, nested_schedules);

struct selectors {
  static std::vector<selector_choice> all() { return {top_k{}, top_p{0.5}, protect{top_k{}, 2, 2}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, selectors);

struct stores {
  static std::vector<store_choice> all() { return {keep_all{}, bounded{3}, none{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(store_contract, stores);

TEST_CASE("does what the chosen one does") {
  const layer_context context{2, 8, 100, 100, phase::prefill};
  CHECK(layer_schedule_choice(stages{{2, 0.5}}).keep(context) == 50);
  CHECK(layer_schedule_choice(every{.n = 1, .share = 0.1}).keep(context) == 10);
  const std::vector<float> sharp{8.0f, 1.0f, 1.0f};
  CHECK(any_schedule_choice(adaptive{.mass = 0.5}).keep({1, 8, 3, 3, phase::prefill}, sharp) == 1);
  CHECK(any_schedule_choice(stages{{1, 1.0}}).keep({1, 8, 3, 3, phase::prefill}, sharp) == 3);

  std::vector<float> scores{8.0f, 1.0f, 1.0f, inf};
  const std::vector<position> positions{0, 1, 2, 3};
  std::vector<std::uint32_t> kept(4);
  CHECK(selector_choice(top_k{}).select(candidates{scores, positions, 4}, kept) == 4);
  CHECK(selector_choice(top_p{0.5}).select(candidates{scores, positions, 4}, kept) == 2);
  CHECK(store_choice(keep_all{}).admit(stored_rows{scores, positions}, kept) == 4);
  CHECK(store_choice(bounded{2}).admit(stored_rows{scores, positions}, kept) == 2);
}

TEST_CASE("equal if the choice and its numbers are") {
  CHECK(store_choice(bounded{2}) == store_choice(bounded{2}));
  CHECK(store_choice(bounded{2}) != store_choice(bounded{3}));
  CHECK(store_choice(keep_all{}) != store_choice(none{}));
  store_choice assigned = keep_all{};
  assigned = bounded{3};
  CHECK(assigned == store_choice(bounded{3}));
}

}  // namespace
