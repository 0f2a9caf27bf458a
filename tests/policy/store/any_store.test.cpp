// SPDX-License-Identifier: MIT
#include <lazyprune/policy/store/any_store.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/store/bounded.hpp>
#include <lazyprune/policy/store/keep_all.hpp>
#include <lazyprune/policy/store/none.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(aux_store<any_store> && !token_selector<any_store> && !adaptive_schedule<any_store>);

struct stores {
  static std::vector<any_store> all() { return {keep_all{}, bounded{3}, none{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(store_contract, stores);

TEST_CASE("any_store admits the rows that its inner store admits") {
  const std::vector<float> scores{8.0f, 1.0f, 1.0f, 2.0f};
  const std::vector<position> positions{0, 1, 2, 3};
  std::vector<std::uint32_t> kept(4);
  CHECK(any_store(keep_all{}).admit(stored_rows{scores, positions}, kept) == 4);
  CHECK(any_store(bounded{2}).admit(stored_rows{scores, positions}, kept) == 2);
}

TEST_CASE("any_store says what its inner store admits") {
  CHECK(any_store(keep_all{}).admits_all() == true);
  CHECK(any_store(none{}).admits_all() == false);
  CHECK(any_store(bounded{2}).admits_all() == std::nullopt);
}

TEST_CASE("any_store drops for good if its inner store does") {
  CHECK(any_store(none{.for_good = true}).for_good());
  CHECK(drops_for_good(any_store(none{.for_good = true})));
  CHECK(!any_store(none{}).for_good());
  CHECK(!drops_for_good(any_store(keep_all{})));
}

TEST_CASE("a copy stays as it is when the original changes, and target() returns the inner store") {
  any_store store = bounded{2};
  const any_store copy = store;
  store = bounded{3};
  CHECK(*copy.target<bounded>() == bounded{2});
  CHECK(*store.target<bounded>() == bounded{3});
  store = keep_all{};
  CHECK(store.target<bounded>() == nullptr);
}

}  // namespace
