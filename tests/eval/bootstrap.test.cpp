// SPDX-License-Identifier: MIT
#include <lazyprune/eval/bootstrap.hpp>

#include <doctest/doctest.h>

using namespace lazyprune;

namespace {

constexpr double scores[] = {0, 100, 50, 25, 100, 75, 0, 100, 10, 60};

}  // namespace

// An independent program with big integers computed the expected values.
TEST_CASE("the interval of a mean") {
  CHECK(bootstrap{}(scores) == interval{28.0, 76.0});
  const interval few = bootstrap{.resamples = 100, .seed = 5}(scores);
  CHECK(few.low == doctest::Approx(26.7375).epsilon(1e-12));  // only approximately equal, because interpolation rounds
  CHECK(few.high == doctest::Approx(74.5).epsilon(1e-12));
}

TEST_CASE("the order of the samples does not change the interval of their mean") {
  std::vector<double> other(std::begin(scores), std::end(scores));
  std::ranges::reverse(other);
  CHECK(bootstrap{}(other) == bootstrap{}(scores));
  std::swap(other[0], other[4]);
  CHECK(bootstrap{}(other) == bootstrap{}(scores));
}

TEST_CASE("the interval of a ratio of sums") {
  constexpr double above[] = {2, 3, 8, 5}, below[] = {1, 1, 2, 4};
  const interval found = bootstrap{}(4, [&](std::span<const std::size_t> drawn) {
    double a = 0, b = 0;
    for (const std::size_t i : drawn) a += above[i], b += below[i];
    return a / b;
  });
  CHECK(found.low == doctest::Approx(1.3846153846153846).epsilon(1e-12));  // 18 / 13
  CHECK(found.high == doctest::Approx(3.7142857142857144).epsilon(1e-12));
}

TEST_CASE("one sample, or equal samples, have an interval of one point") {
  CHECK(bootstrap{}(std::vector<double>{7}) == interval{7, 7});
  CHECK(bootstrap{}(std::vector<double>(20, 3.0)) == interval{3, 3});
}
