// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in f32") { check_kernel(kernels::portable::f32); }

TEST_CASE("weights in bf16") { check_kernel(kernels::portable::bf16); }
