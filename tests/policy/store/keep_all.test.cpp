// SPDX-License-Identifier: MIT
#include <lazyprune/policy/store/keep_all.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct keep_all_values {
  static std::vector<keep_all> all() { return {keep_all{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(store_contract, keep_all_values);

TEST_CASE("keep_all admits everything") {
  const std::vector<float> scores{0.5f, -inf, inf, 0.0f};
  const std::vector<position> positions{1, 4, 5, 9};
  for (const bool embeddings : {false, true}) {
    std::vector<std::uint32_t> kept(4, 77);
    CHECK(keep_all{}.admit(stored_rows{scores, positions, embeddings}, kept) == 4);
    CHECK(kept == std::vector<std::uint32_t>{0, 1, 2, 3});
  }
}

}  // namespace
