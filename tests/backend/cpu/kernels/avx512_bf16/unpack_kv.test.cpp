// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512_bf16/unpack_kv.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/unpack_kv_contract.hpp>

TEST_CASE("keys and values in q8_0 are unpacked to bf16 in AVX512-BF16") {
  if (lazyprune_test::is_missing(lazyprune::isa::avx512_bf16)) return;
  lazyprune_test::check_unpack_q8_0(lazyprune::kernels::avx512_bf16::unpack_q8_0, lazyprune::dtype::bf16);
}
