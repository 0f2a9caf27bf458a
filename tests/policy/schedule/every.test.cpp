// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/every.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct every_values {
  static std::vector<every> all() { return {every{.n = 1, .share = 0.9}, every{.n = 4, .share = 0.5}, every{.n = 100, .share = 0.01}}; }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, every_values);

TEST_CASE("every prunes after every n layers, but never before the first layer") {
  std::vector<layer_id> pruned;
  for (layer_id done = 0; done < 32; ++done) {
    const std::size_t keep = every{.n = 8, .share = 0.25}.keep({done, 32, 100, 400, phase::prefill});
    if (keep == everything) continue;
    CHECK(keep == 25);
    pruned.push_back(done);
  }
  CHECK(pruned == std::vector<layer_id>{8, 16, 24});
}

TEST_CASE("n = 0 and share = 0 are refused") {
  CHECK_THROWS_AS(static_cast<void>(every{.n = 0, .share = 0.5}), error);
  CHECK_THROWS_AS(static_cast<void>(every{.n = 1, .share = 0.0}), error);
}

}  // namespace
