// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/cosine.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <lazyprune/policy/schedule/linear.hpp>
#include "policy/contract.hpp"

namespace {

using namespace contract;

struct cosine_values {
  static std::vector<cosine> all() {
    return {cosine{.share = 0.1}, cosine{.from = 3, .share = 0.5}, cosine{.from = 100, .share = 0.5}, cosine{.share = 1.0}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, cosine_values);

TEST_CASE("cosine falls slowly, then fast, then slowly, and reaches its share before the last layer") {
  const cosine when{.from = 1, .share = 0.2};
  // With 8 layers the number of tokens falls 6 times, after 2 to 7 layers. The values of (1 + cos) / 2 are then 0.933, 3/4, 1/2, 1/4, 0.067
  // and 0. Each value c keeps the share 0.2 + 0.8 * c of the 1000 tokens.
  const std::size_t expected[] = {everything, everything, 947, 800, 600, 400, 254, 200};
  for (layer_id done = 0; done < 8; ++done) {
    CAPTURE(done);
    CHECK(when.keep({done, 8, 1000, 1000, phase::prefill}) == expected[done]);
  }
}

TEST_CASE("cosine agrees with a formula with cos^2 of half the angle, and equals linear in the middle and at the end") {
  for (const double share : {0.01, 0.3, 0.77, 1.0})
    for (layer_id layers = 2; layers < 40; ++layers)
      for (layer_id done = 1; done < layers; ++done)
        for (std::size_t known = 1; known < 3000; known += 97) {
          const layer_context context{done, layers, known, known, phase::prefill};
          const long double half = std::cos(std::acos(-1.0L) / 2 * done / (layers - 1));
          const long double expected = std::ceil((share + (1 - share) * half * half) * static_cast<long double>(known) - 1e-9L);
          const std::size_t keep = cosine{0, share}.keep(context);
          REQUIRE(keep == std::max<std::size_t>(1, static_cast<std::size_t>(expected)));
          if (2 * done == layers - 1 || done == layers - 1) REQUIRE(keep == linear{0, share}.keep(context));
        }
}

TEST_CASE("cosine keeps at most the active tokens") { CHECK(cosine{.share = 0.5}.keep({2, 3, 30, 100, phase::decode}) == 30); }

}  // namespace
