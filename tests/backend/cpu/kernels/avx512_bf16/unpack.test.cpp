// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512_bf16/unpack.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/unpack_contract.hpp>

TEST_CASE("quantized weights are unpacked in AVX512-BF16") {
  if (lazyprune_test::is_missing(lazyprune::isa::avx512_bf16)) return;
  lazyprune_test::check_unpack(lazyprune::kernels::avx512_bf16::unpack);
}
