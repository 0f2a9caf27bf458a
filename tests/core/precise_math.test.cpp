// SPDX-License-Identifier: MIT
// Tests the macros in the middle of code with the flags of -ffast-math. fast_math/ compiles whole units with this flag.
#define __FAST_MATH__ 1  // the pragmas below do not define it
#include <lazyprune/core/precise_math.hpp>
#undef __FAST_MATH__
#ifdef __clang__
#pragma float_control(push)
#pragma float_control(precise, off)
#else
#pragma GCC push_options
#pragma GCC optimize("O2", "fast-math")
#endif

LAZYPRUNE_PRECISE_MATH_BEGIN
namespace {

[[gnu::noinline]] bool differs_from_itself(float x) { return x != x; }
[[gnu::noinline]] float plus_zero(float x) { return x + 0.0f; }
[[gnu::noinline]] double back_and_forth(double x, double y) { return (x + y) - y; }

}  // namespace
LAZYPRUNE_PRECISE_MATH_END

namespace {

[[gnu::noinline]] double in_fast_code(double x, double y) { return (x + y) - y; }

}  // namespace

#ifdef __clang__
#pragma float_control(pop)
#else
#pragma GCC pop_options
#endif

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

// By Clang, unoptimized code passes without the macros, too. The stage fast_math of .ci/run tests what Clang makes with them.
TEST_CASE("code between the macros computes as IEEE 754 says, in the middle of code that does not") {
  volatile float nan = std::numeric_limits<float>::quiet_NaN(), zero = -0.0f;
  volatile double tiny = 1e-30, one = 1.0;
  CHECK(differs_from_itself(nan));
  CHECK_FALSE(std::signbit(plus_zero(zero)));
  CHECK(back_and_forth(tiny, one) == 0.0);
#if !defined(__clang__) || defined(__OPTIMIZE__)
  CHECK(in_fast_code(tiny, one) == 1e-30);
#else
  CHECK(in_fast_code(one, one) == 1.0);
#endif
}
