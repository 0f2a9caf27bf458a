// SPDX-License-Identifier: MIT
#include <lazyprune/policy/scorer/recency.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

static_assert(std::is_trivially_copyable_v<recency>);

struct recency_values {
  static std::vector<recency> all() { return {recency{}}; }
};
TEST_CASE_TEMPLATE_INVOKE(scorer_contract, recency_values);

TEST_CASE("the score is the position, and never decreases") {
  const std::vector<position> positions{0, 1, 16'777'216, 16'777'217, 4'294'967'295u};
  std::vector<float> out(5);
  recency{}.score({positions, 0, 4'294'967'296u}, out);
  CHECK(out[0] == 0.0f);
  CHECK(out[1] == 1.0f);
  CHECK(std::is_sorted(out.begin(), out.end()));
  CHECK(out[2] == 16'777'216.0f);
  CHECK(out[4] == 4'294'967'296.0f);
}

}  // namespace
