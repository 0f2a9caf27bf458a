// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/vec.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/samples.hpp>

namespace portable_vec_test {

using lazyprune::kernels::portable::vec;
#define LAZYPRUNE_KERNEL
#include <backend/cpu/kernels/vec_contract.inc>
#undef LAZYPRUNE_KERNEL

}  // namespace portable_vec_test

TEST_CASE("a register has four floats, whatever the flags of the translation unit") { CHECK(lazyprune::kernels::portable::vec::size == 4); }

TEST_CASE("registers on any processor") { portable_vec_test::check_vec(); }
