// SPDX-License-Identifier: MIT
#include <lazyprune/core/finite.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

namespace {

template <class T>
void check_all() {
  using limits = std::numeric_limits<T>;
  for (const T finite : {T(0), T(-0.0), limits::max(), limits::lowest(), limits::min(), limits::denorm_min(), T(-1.5)}) {
    CHECK(lazyprune::is_finite(finite));
    CHECK_FALSE(lazyprune::is_nan(finite));
  }
  for (const T infinite : {limits::infinity(), -limits::infinity()}) {
    CHECK_FALSE(lazyprune::is_finite(infinite));
    CHECK_FALSE(lazyprune::is_nan(infinite));
  }
  for (const T nan : {limits::quiet_NaN(), -limits::quiet_NaN(), limits::signaling_NaN()}) {
    CHECK_FALSE(lazyprune::is_finite(nan));
    CHECK(lazyprune::is_nan(nan));
  }
}

#if defined(__GNUC__) && !defined(__clang__)  // Clang has no such attribute
[[gnu::optimize("-ffast-math"), gnu::noinline]] bool finite_in_fast_code(float x) { return lazyprune::is_finite(x); }
[[gnu::optimize("-ffast-math"), gnu::noinline]] bool nan_in_fast_code(double x) { return lazyprune::is_nan(x); }
#endif

}  // namespace

TEST_CASE("finite numbers, infinities and NaN are told apart") {
  check_all<float>();
  check_all<double>();
}

TEST_CASE_TEMPLATE("one number that is not finite is found at any place of a span of any length", T, float, double) {
  for (std::size_t size = 0; size < 200; ++size) {
    std::vector<T> numbers(size, T(1.5));
    REQUIRE(lazyprune::all_finite(std::span<const T>(numbers)));
    for (std::size_t at = 0; at < size; ++at) {
      numbers[at] = at % 2 ? std::numeric_limits<T>::quiet_NaN() : -std::numeric_limits<T>::infinity();
      REQUIRE_FALSE(lazyprune::all_finite(std::span<const T>(numbers)));
      numbers[at] = T(1.5);
    }
  }
}

#if defined(__GNUC__) && !defined(__clang__)
TEST_CASE("finite numbers, infinities and NaN are told apart even with -ffast-math") {
  volatile float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity(), one = 1;
  CHECK_FALSE(finite_in_fast_code(nan));
  CHECK_FALSE(finite_in_fast_code(infinite));
  CHECK(finite_in_fast_code(one));
  CHECK(nan_in_fast_code(static_cast<double>(nan)));
  CHECK_FALSE(nan_in_fast_code(1.0));
}
#endif
