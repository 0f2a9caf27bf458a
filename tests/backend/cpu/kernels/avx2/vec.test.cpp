// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/vec.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/samples.hpp>

namespace avx2_vec_test {

using lazyprune::kernels::avx2::vec;
#define LAZYPRUNE_KERNEL LAZYPRUNE_AVX2
#include <backend/cpu/kernels/vec_contract.inc>
#undef LAZYPRUNE_KERNEL

}  // namespace avx2_vec_test

TEST_CASE("registers of AVX2") {
  if (lazyprune_test::is_missing(lazyprune::isa::avx2)) return;
  avx2_vec_test::check_vec();
}
