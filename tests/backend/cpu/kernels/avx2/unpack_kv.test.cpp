// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/unpack_kv.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/unpack_kv_contract.hpp>

TEST_CASE("keys and values in f16 and q8_0 are unpacked to f32 in AVX2") {
  if (lazyprune_test::is_missing(lazyprune::isa::avx2)) return;
  lazyprune_test::check_unpack_f16(lazyprune::kernels::avx2::unpack_f16);
  lazyprune_test::check_unpack_q8_0(lazyprune::kernels::avx2::unpack_q8_0, lazyprune::dtype::f32);
}
