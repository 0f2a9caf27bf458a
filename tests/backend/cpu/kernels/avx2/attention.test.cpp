// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx2/attention.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/softmax_contract.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("the running softmax in AVX2") {
  if (is_missing(isa::avx2)) return;
  check_attention_kernel(kernels::avx2::attention);
}
