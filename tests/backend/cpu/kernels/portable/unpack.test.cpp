// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/unpack.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/unpack_contract.hpp>

TEST_CASE("quantized weights are unpacked on any processor") { lazyprune_test::check_unpack(lazyprune::kernels::portable::unpack); }
