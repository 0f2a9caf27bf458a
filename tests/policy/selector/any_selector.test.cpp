// SPDX-License-Identifier: MIT
#include <lazyprune/policy/selector/any_selector.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <lazyprune/policy/selector/protect.hpp>
#include <lazyprune/policy/selector/top_k.hpp>
#include <lazyprune/policy/selector/top_p.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(token_selector<any_selector> && token_selector<protect<any_selector>>);
static_assert(!aux_store<any_selector> && !layer_schedule<any_selector>);

struct selectors {
  static std::vector<any_selector> all() { return {top_k{}, top_p{0.5}, protect{any_selector(top_k{}), 2, 2}}; }
};
TEST_CASE_TEMPLATE_INVOKE(selector_contract, selectors);

TEST_CASE("any_selector keeps the tokens that its inner selector keeps") {
  std::vector<float> scores{8.0f, 1.0f, 1.0f, inf};
  const std::vector<position> positions{0, 1, 2, 3};
  std::vector<std::uint32_t> kept(4);
  CHECK(any_selector(top_k{}).select(candidates{scores, positions, 4}, kept) == 4);
  CHECK(any_selector(top_p{0.5}).select(candidates{scores, positions, 4}, kept) == 2);
}

TEST_CASE("any_selector counts as its inner selector counts") {
  std::vector<float> scores{0.0f, 0.0f, 0.0f, inf};
  const std::vector<position> positions{0, 1, 2, 3};
  const candidates c{scores, positions, 2};
  CHECK(any_selector(top_k{}).count(c) == kept_count{.required = 1});
  CHECK_FALSE(any_selector(top_p{0.5}).count(c));
  CHECK(any_selector(protect{any_selector(top_k{}), 1, 2}).count(c) == kept_count{.required = 3});
  CHECK(scores == std::vector<float>{inf, 0.0f, inf, inf});  // the tokens that protect requires are marked
}

TEST_CASE("a copy does not change with its original, and target() returns the selector") {
  any_selector selector = top_p{0.5};
  const any_selector copy = selector;
  selector = top_p{0.25};
  CHECK(*copy.target<top_p>() == top_p{0.5});
  CHECK(*selector.target<top_p>() == top_p{0.25});
  selector = top_k{};
  CHECK(selector.target<top_p>() == nullptr);
}

}  // namespace
