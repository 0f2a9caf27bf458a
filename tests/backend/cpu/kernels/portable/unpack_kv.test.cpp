// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/unpack_kv.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/unpack_kv_contract.hpp>

TEST_CASE("keys and values in f16 and q8_0 are unpacked to f32 on any processor") {
  lazyprune_test::check_unpack_f16(lazyprune::kernels::portable::unpack_f16);
  lazyprune_test::check_unpack_q8_0(lazyprune::kernels::portable::unpack_q8_0, lazyprune::dtype::f32);
}
