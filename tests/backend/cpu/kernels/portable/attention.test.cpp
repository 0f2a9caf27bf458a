// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/portable/attention.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/softmax_contract.hpp>

TEST_CASE("the running softmax on any processor") { lazyprune_test::check_attention_kernel(lazyprune::kernels::portable::attention); }
