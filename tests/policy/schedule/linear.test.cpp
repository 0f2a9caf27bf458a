// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/linear.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "policy/contract.hpp"

namespace {

using namespace contract;

struct linear_values {
  static std::vector<linear> all() {
    return {linear{.share = 0.1}, linear{.from = 3, .share = 0.5}, linear{.from = 100, .share = 0.5}, linear{.share = 1.0}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, linear_values);

TEST_CASE("linear falls in equal steps, and reaches its share before the last layer") {
  const linear when{.from = 2, .share = 0.2};
  const std::size_t expected[] = {everything, everything, everything, 80, 60, 40, 20};  // 4 steps of 20 tokens
  for (layer_id done = 0; done < 7; ++done) {
    CAPTURE(done);
    CHECK(when.keep({done, 7, 100, 100, phase::prefill}) == expected[done]);
  }
}

TEST_CASE("linear keeps a share of the known tokens, but at most the active tokens") {
  const linear when{.share = 0.5};
  CHECK(when.keep({2, 3, 70, 100, phase::decode}) == 50);
  CHECK(when.keep({2, 3, 30, 100, phase::decode}) == 30);
}

TEST_CASE("linear agrees with a line that is computed in whole numbers") {
  for (std::uint64_t percent = 1; percent <= 100; percent += 7)
    for (layer_id layers = 1; layers < 20; ++layers)
      for (layer_id from = 0; from < 20; ++from)
        for (layer_id done = 0; done < layers; ++done)
          for (std::uint64_t known = 1; known < 300; known += 13) {
            const std::size_t keep = linear{from, static_cast<double>(percent) / 100}.keep(
                {done, layers, static_cast<std::size_t>(known), known, phase::prefill});
            if (done <= from) {
              REQUIRE(keep == everything);
              continue;
            }
            const std::uint64_t steps = layers - 1 - from, step = done - from;  // share: 1 - step / steps * (1 - percent / 100)
            const std::uint64_t parts = 100 * steps - step * (100 - percent);
            REQUIRE(keep == (parts * known + 100 * steps - 1) / (100 * steps));
          }
}

}  // namespace
