// SPDX-License-Identifier: MIT
#include <lazyprune/policy/store/none.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct none_values {
  static std::vector<none> all() { return {none{}, none{.for_good = true}}; }
};
TEST_CASE_TEMPLATE_INVOKE(store_contract, none_values);

TEST_CASE("none admits nothing, not even embeddings") {
  const std::vector<float> scores{0.5f, -inf, 1e30f, std::numeric_limits<float>::max()};
  const std::vector<position> positions{1, 4, 5, 9};
  std::vector<std::uint32_t> kept(4);
  CHECK(none{}.admit(stored_rows{scores, positions, false}, kept) == 0);
  CHECK(none{}.admit(stored_rows{scores, positions, true}, kept) == 0);
}

TEST_CASE("none drops tokens for good if for_good is set") {
  CHECK(drops_for_good(none{.for_good = true}));
  CHECK(!drops_for_good(none{}));
  CHECK(none{} != none{.for_good = true});
}

}  // namespace
