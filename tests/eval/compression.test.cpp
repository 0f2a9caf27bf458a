// SPDX-License-Identifier: MIT
#include <lazyprune/eval/compression.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

using ids = std::vector<token_id>;

constexpr double first = std::numeric_limits<double>::infinity();
const ids prompt{10, 11, 12, 13, 14, 15};
const std::vector<double> nats{first, 0.5, 3.0, 0.25, 3.5, 0.0};

}  // namespace

TEST_CASE("the most surprising tokens stay in their order, with the first and the last") {
  CHECK(compressed(prompt, nats, 1.0) == prompt);
  CHECK(compressed(prompt, nats, 0.5) == ids{10, 14, 15});
  CHECK(compressed(prompt, nats, 0.51) == ids{10, 12, 14, 15});  // rounded up
  CHECK(compressed(prompt, nats, 0.01) == ids{10, 15});
  CHECK(compressed(ids{7}, std::vector{first}, 0.5) == ids{7});
}

TEST_CASE("of equally surprising tokens the later ones stay") {
  CHECK(compressed(prompt, std::vector{first, 1.0, 1.0, 1.0, 1.0, 1.0}, 0.6) == ids{10, 13, 14, 15});
}

TEST_CASE("one number a token") {
  CHECK_THROWS_WITH_AS(compressed(prompt, std::vector{first}, 0.5),
                       "compression: self-information: expected 6 numbers, one a token of a prompt, found 1", error);
  CHECK_THROWS_AS(compressed({}, {}, 0.5), error);
}
