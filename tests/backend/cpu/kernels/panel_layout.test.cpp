// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/panel_layout.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/cpu/kernels/columns_contract.hpp>
#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;
using kernels::panel_layout;

TEST_CASE("a panel keeps every number of its blocks") {
  for (const block_format& format : block_formats) {
    const panel_layout layout(format);
    constexpr std::size_t stride = 3;  // the blocks between are not this panel's
    quantized_block blocks[kernels::tile_outputs * stride];
    for (std::uint32_t output = 0; output < kernels::tile_outputs; ++output) blocks[output * stride] = random_block(format, output, 3);
    std::vector<std::byte> panel(layout.bytes, std::byte{0xff});
    layout.write(blocks, stride, panel.data());
    bool right = true;
    for (std::size_t output = 0; output < kernels::tile_outputs; ++output)
      for (std::size_t i = 0; i < format.inputs; ++i) {
        const int code = layout.code(panel.data(), i, output);
        const float number = layout.factors_of(panel.data(), i / format.group, output).number(code);
        right = right && code == format.meant(blocks[output * stride].codes[i]) && number == number_of(format, blocks[output * stride], i);
      }
    CHECK(right);
    CHECK(layout.bytes % kernels::cache_line == 0);
  }
}

TEST_CASE("columns of rows are written one after another, and nothing between them") { check_columns(kernels::write_columns); }

TEST_CASE("panels take hardly more memory than blocks in a file, except those of two and three bits") {
  const auto bits = [](const block_format& format) {
    return 8.0 * static_cast<double>(panel_layout(format).bytes) / static_cast<double>(format.inputs * kernels::tile_outputs);
  };
  CHECK(bits({32, 32, 8, 128, false}) == 8.5);     // Q8_0
  CHECK(bits({32, 32, 4, 8, false}) == 4.5);       // Q4_0
  CHECK(bits({32, 32, 5, 16, false}) == 5.5);      // Q5_0
  CHECK(bits({256, 32, 4, 0, true}) == 4.625);     // Q4_K: 4.5 in a file
  CHECK(bits({256, 16, 6, 32, false}) == 6.5625);  // Q6_K
  CHECK(bits({256, 16, 4, 0, true}) == 5.125);     // Q2_K: 2.625 in a file
  CHECK(bits({256, 16, 4, 4, false}) == 4.5625);   // Q3_K: 3.4375 in a file
}
