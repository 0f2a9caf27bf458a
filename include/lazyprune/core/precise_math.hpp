// SPDX-License-Identifier: MIT
// Code between LAZYPRUNE_PRECISE_MATH_BEGIN and LAZYPRUNE_PRECISE_MATH_END computes as IEEE 754 says, also in a unit that is compiled with
// -ffast-math, -Ofast or -ffinite-math-only. Otherwise these flags would change the order of sums, replace e^x by a rougher one, and
// compare NaN, infinities and zeros of different signs wrongly. Then two units of one program could keep different tokens.
//
// The macros stand around a header's namespace, after its includes. They do not reach the functions of other headers: code between them
// must not call std::accumulate for floats, and not compare infinities by std::min or std::max. With Clang on other processors than x86-64
// and 64-bit ARM the macros are empty.
#pragma once

#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))  // Clang has no macros for some of the flags
#define LAZYPRUNE_PRECISE_MATH_BEGIN _Pragma("float_control(push)") _Pragma("float_control(precise, on)")
#define LAZYPRUNE_PRECISE_MATH_END _Pragma("float_control(pop)")
#elif defined(__GNUC__) && !defined(__clang__) &&                                                                               \
    (defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || \
     (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__))
// Each flag is named, because no-fast-math does not take back a flag that the command line names.
#define LAZYPRUNE_PRECISE_MATH_BEGIN                                                                                     \
  _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-fast-math,no-unsafe-math-optimizations,no-finite-math-only\")") \
      _Pragma("GCC optimize(\"no-associative-math,no-reciprocal-math,signed-zeros\")")
#define LAZYPRUNE_PRECISE_MATH_END _Pragma("GCC pop_options")
#else
#define LAZYPRUNE_PRECISE_MATH_BEGIN
#define LAZYPRUNE_PRECISE_MATH_END
#endif
