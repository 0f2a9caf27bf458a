// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/avx512_bf16/product.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/unpack_contract.hpp>
#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("weights in bf16") {
  if (is_missing(isa::avx512_bf16)) return;
  check_kernel(kernels::avx512_bf16::bf16);
}

TEST_CASE("quantized weights are multiplied with the bits of unpacked ones") {
  if (is_missing(isa::avx512_bf16)) return;
  const kernels::product_kernel& kernel = kernels::avx512_bf16::bf16;
  for (const block_format& format : block_formats) {
    CAPTURE(format.bits);
    CAPTURE(format.inputs);
    const kernels::panel_layout layout(format);
    constexpr std::uint32_t panels = 3;
    const std::size_t inputs = panels * format.inputs;
    const std::vector<std::byte> packed = random_panels(layout, panels);
    std::vector<std::byte> tile(inputs * kernels::tile_outputs * 2);
    kernel.unpack(layout, packed.data(), inputs, tile.data());
    for (std::size_t rows = 1; rows <= kernel.panel_rows; ++rows) {
      CAPTURE(rows);
      const auto numbers = normal_floats(rows * inputs, 1);
      std::vector<std::byte> x(kernel.padded(rows) * inputs * kernel.element);
      kernel.pack(numbers.data(), inputs, rows, inputs, inputs, x.data());
      std::vector<float> expected(rows * kernels::tile_outputs + 1, 5.0f), sums = expected;
      kernel.multiply(x.data(), rows, tile.data(), inputs, expected.data(), {false, kernels::no_prefetch(x.data()), kernel.ahead});
      kernel.multiply_panels(layout, x.data(), rows, packed.data(), inputs, sums.data());
      CHECK(sums == expected);
    }
  }
}
