// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512/product.hpp>

#include <doctest/doctest.h>

#include <backend/cpu/kernels/columns_contract.hpp>
#include <backend/cpu/kernels/contract.hpp>
#include <lazyprune/backend/cpu/kernels/avx2/product.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in f32") {
  if (is_missing(isa::avx512)) return;
  check_kernel(kernels::avx512::f32);
}

TEST_CASE("weights in bf16") {
  if (is_missing(isa::avx512)) return;
  check_kernel(kernels::avx512::bf16);
}

TEST_CASE("columns of rows are written one after another, and nothing between them") {
  if (is_missing(isa::avx512)) return;
  check_columns(kernels::avx512::write_columns);
}

TEST_CASE("AVX-512 gives the bits of AVX2") {
  if (is_missing(isa::avx2) || is_missing(isa::avx512)) return;
  const auto numbers = normal_floats(6 * 333 + 32 * 333, 1);
  const auto number = [&](std::size_t i) { return numbers[i % numbers.size()]; };
  const std::pair<const kernels::product_kernel&, const kernels::product_kernel&> pairs[] = {{kernels::avx2::f32, kernels::avx512::f32},
                                                                                             {kernels::avx2::bf16, kernels::avx512::bf16}};
  for (const auto& [narrow, wide] : pairs) {
    const auto sums = tile_sample(narrow, 6, 333, number).sums(0, 6, narrow.line_inputs == 1 ? 333 : 352);
    CHECK(tile_sample(wide, 6, 333, number).sums(0, 6, wide.line_inputs == 1 ? 333 : 352) == sums);
    const auto bias = normal_floats(32, 2);
    guarded<float> a(6, 16), b(6, 16);
    narrow.gate_silu(sums.data(), 6, bias.data(), a.view().data, a.view().stride);
    wide.gate_silu(sums.data(), 6, bias.data(), b.view().data, b.view().stride);
    CHECK(a == b);
    narrow.gate_gelu_tanh(sums.data(), 6, bias.data(), a.view().data, a.view().stride);
    wide.gate_gelu_tanh(sums.data(), 6, bias.data(), b.view().data, b.view().stride);
    CHECK(a == b);
  }
}
