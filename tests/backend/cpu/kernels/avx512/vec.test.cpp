// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512/vec.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/samples.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns about its own intrinsics
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace avx512_vec_test {

using lazyprune::kernels::avx512::vec;
#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX512
#include <backend/cpu/kernels/vec_contract.inc>
#undef LAZYPRUNE_KERNEL

}  // namespace avx512_vec_test

TEST_CASE("registers of AVX-512") {
  if (lazyprune_test::is_missing(lazyprune::isa::avx512)) return;
  avx512_vec_test::check_vec();
}
