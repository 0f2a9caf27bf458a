// SPDX-License-Identifier: MIT
// The contract of product_kernels that pack activations as 8 bits and multiply them by quantized weights.
#pragma once

#include <lazyprune/backend/cpu/kernels/int8_rows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <backend/cpu/kernels/unpack_contract.hpp>
#include <backend/samples.hpp>

namespace lazyprune_test {

/// A block of a row in 8 bits, by the definition in int8_rows.hpp.
struct rounded_block {
  float scale;
  int codes[lazyprune::kernels::pack_inputs];

  explicit rounded_block(std::span<const float> x) : codes() {
    float most = 0;
    bool finite = true;
    for (const float number : x) {
      finite = finite && std::isfinite(number);
      if (!(std::abs(number) <= most)) most = std::abs(number);  // also if it is not a number
      if (std::isnan(most)) break;
    }
    scale = most / 127;
    for (std::size_t i = 0; finite && most >= 1e-30f && i < x.size(); ++i) codes[i] = static_cast<int>(std::nearbyint(x[i] * (127 / most)));
  }
};

/// Checks that packing rounds each block of a row alone, and writes the numbers that `packed_number` reads, and nothing else.
inline void check_int8_packing(const lazyprune::kernels::product_kernel& kernel) {
  using lazyprune::kernels::int8_block;
  constexpr std::size_t unit = lazyprune::kernels::pack_inputs;
  constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t rows = 1; rows <= kernel.strip; ++rows)
    for (const std::size_t inputs : {1u, 31u, 32u, 33u, 96u, 100u}) {
      CAPTURE(rows);
      CAPTURE(inputs);
      const std::size_t depth = (inputs + unit - 1) / unit * unit, bytes = depth / unit * int8_block{rows}.bytes();
      REQUIRE(bytes == depth / unit * rows * kernel.unit_bytes);
      guarded<float> x(rows, inputs, normal_floats(rows * inputs, 1));
      if (inputs >= unit)
        x.view().row(rows - 1)[unit - 1] = rows % 4 == 0 ? infinity : rows % 4 == 1 ? no_number : rows % 4 == 2 ? 1e30f : -9;
      for (std::size_t i = unit; i < std::min(2 * unit, inputs); ++i) x.view().row(0)[i] *= rows % 2 == 0 ? 1e-32f : 1e-28f;
      const auto in_parts = [&](std::size_t part) {
        std::vector<std::byte> packed(bytes + 64, std::byte{0x5a});
        for (std::size_t first = 0; first < inputs; first += part) {
          const std::size_t end = std::min(first + part, inputs);
          kernel.pack(x.view().data + first, x.view().stride, rows, end - first, (end < inputs ? end : depth) - first,
                      packed.data() + first / unit * int8_block{rows}.bytes());
        }
        return packed;
      };
      const std::vector<std::byte> packed = in_parts(inputs);
      for (std::size_t i = bytes; i < packed.size(); ++i) REQUIRE(packed[i] == std::byte{0x5a});
      for (const std::size_t part : {unit, 2 * unit}) CHECK(in_parts(part) == packed);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t first = 0; first < depth; first += unit) {
          const rounded_block expected({x.view().row(r) + first, std::min(unit, inputs - std::min(inputs, first))});
          std::int16_t sums[2];
          std::memcpy(sums, packed.data() + first / unit * int8_block{rows}.bytes() + int8_block{rows}.sums(r), sizeof sums);
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < unit; ++i) {
            const float number = expected.scale * static_cast<float>(expected.codes[i]);
            const float found = kernel.packed_number(packed.data(), rows, r, first + i);
            wrong += std::isnan(number) ? !std::isnan(found) : found != number;
            sums[i / 16] = static_cast<std::int16_t>(sums[i / 16] - expected.codes[i]);
          }
          CHECK(wrong == 0);
          CHECK((sums[0] == 0 && sums[1] == 0));
        }
    }
}

/// Checks products with panels of every format. If `fused` is true, sums must have the bits of the definition in product_kernel.hpp.
/// Otherwise they must equal it but for the rounding of sums in float.
inline void check_int8_products(const lazyprune::kernels::product_kernel& kernel, bool fused) {
  using namespace lazyprune;
  constexpr std::size_t outputs = kernels::tile_outputs, unit = kernels::pack_inputs;
  constexpr std::uint32_t panels = 3;
  for (const block_format& format : block_formats) {
    CAPTURE(format.bits);
    CAPTURE(format.inputs);
    CAPTURE(format.has_least);
    const kernels::panel_layout layout(format);
    const std::size_t inputs = panels * format.inputs;
    const std::vector<std::byte> weights = random_panels(layout, panels);
    const kernels::int8_tile of(format);
    REQUIRE(kernel.unpacked_bytes(format) == of.bytes);
    std::vector<std::byte> tile(inputs / unit * of.bytes + 64, std::byte{7});
    kernel.unpack(layout, weights.data(), inputs, tile.data());
    for (std::size_t i = tile.size() - 64; i < tile.size(); ++i) REQUIRE(tile[i] == std::byte{7});
    const auto x = normal_floats(kernel.strip * inputs, 2);
    std::vector<float> expected(kernel.strip * outputs);
    std::vector<double> exact(kernel.strip * outputs), size(kernel.strip * outputs);
    for (std::uint32_t output = 0; output < outputs; ++output)
      for (std::uint32_t b = 0; b < panels; ++b) {
        const quantized_block w = random_block(format, output, b);
        for (std::size_t first = 0; first < format.inputs; first += unit)
          for (std::size_t r = 0; r < kernel.strip; ++r) {
            const rounded_block row({x.data() + r * inputs + b * format.inputs + first, unit});
            float part = 0;
            for (std::size_t g = first / format.group; g < (first + unit) / format.group; ++g) {
              int products = 0, sum = 0;
              for (std::size_t i = 0; i < format.group; ++i) {
                const int code = row.codes[g * format.group - first + i];
                products += (format.meant(w.codes[g * format.group + i]) - format.offset) * code;
                sum += code;
              }
              const auto by = layout.factors_of(weights.data() + b * layout.bytes, g, output);
              part = std::fma(static_cast<float>(products), by.scale, part);
              if (format.has_least) part = std::fma(-static_cast<float>(sum), by.base, part);
            }
            float& to = expected[r * outputs + output];
            to = std::fma(part, row.scale, to);
            for (std::size_t i = 0; i < unit; ++i) {
              const double product = static_cast<double>(number_of(format, w, first + i)) * row.codes[i] * static_cast<double>(row.scale);
              exact[r * outputs + output] += product, size[r * outputs + output] += std::abs(product);
            }
          }
      }
    for (std::size_t rows = 1; rows <= kernel.strip; ++rows) {
      CAPTURE(rows);
      const kernels::int8_block block{rows};
      std::vector<std::byte> packed(inputs / unit * block.bytes());
      kernel.pack(x.data(), inputs, rows, inputs, inputs, packed.data());
      const auto check = [&](const auto& multiply) {
        std::vector<float> sums(rows * outputs + 1, 5.0f);
        // The second call continues the sums of the first one.
        const std::size_t cut = format.inputs;
        const auto in_calls = [&](std::size_t first, std::size_t count) {
          multiply(first, count, sums.data(), kernels::tile_mode{first > 0, {weights.data(), 8}, kernel.ahead, &format});
        };
        in_calls(0, cut);
        in_calls(cut, inputs - cut);
        CHECK(sums.back() == 5.0f);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < rows * outputs; ++i) {
          const double error = std::abs(static_cast<double>(sums[i]) - exact[i]);
          wrong += error > 1e-5 * size[i] || (fused && sums[i] != expected[i]);
        }
        CHECK(wrong == 0);
        const std::vector<float> in_two = sums;
        std::fill_n(sums.begin(), rows * outputs, 5.0f);
        in_calls(0, inputs);
        CHECK(sums == in_two);
        return sums;
      };
      const auto of_tile = [&](std::size_t first, std::size_t count, float* sums, const kernels::tile_mode& mode) {
        kernel.multiply(packed.data() + first / unit * block.bytes(), rows, tile.data() + first / unit * of.bytes, count, sums, mode);
      };
      const auto of_panels = [&](std::size_t first, std::size_t count, float* sums, const kernels::tile_mode& mode) {
        kernel.multiply_panels(layout, packed.data() + first / unit * block.bytes(), rows,
                               weights.data() + first / format.inputs * layout.bytes, count, sums, mode);
      };
      const auto sums_of_tile = check(of_tile);
      if (rows <= kernel.panel_rows) CHECK(check(of_panels) == sums_of_tile);
    }
  }
}

/// Checks sums of the largest products, which must not saturate.
inline void check_largest_int8_products(const lazyprune::kernels::product_kernel& kernel) {
  using namespace lazyprune;
  constexpr std::size_t outputs = kernels::tile_outputs, unit = kernels::pack_inputs;
  for (const block_format& format : {block_format{32, 32, 8, 128, false}, {32, 32, 8, 0, true}, {256, 16, 6, 0, true}})
    for (const std::uint8_t code : {std::uint8_t{0}, static_cast<std::uint8_t>((1 << format.bits) - 1)})
      for (const float x : {1.0f, -1.0f}) {
        const kernels::panel_layout layout(format);
        quantized_block block;
        block.scale = 0x3c00;  // 1
        std::fill_n(block.scales, quantized_block::most_groups, std::int8_t{1});
        std::fill_n(block.codes, format.inputs, code);
        quantized_block blocks[outputs];
        std::fill_n(blocks, outputs, block);
        std::vector<std::byte> panel(layout.bytes), tile(format.inputs / unit * kernel.unpacked_bytes(format));
        layout.write(blocks, 1, panel.data());
        kernel.unpack(layout, panel.data(), format.inputs, tile.data());
        const std::vector<float> row(format.inputs, x);
        std::vector<std::byte> packed(format.inputs / unit * kernels::int8_block{1}.bytes());
        kernel.pack(row.data(), format.inputs, 1, format.inputs, format.inputs, packed.data());
        std::vector<float> sums(outputs);
        kernel.multiply(packed.data(), 1, tile.data(), format.inputs, sums.data(), {false, {tile.data(), 0}, 0, &format});
        const float expected = x * static_cast<float>(static_cast<int>(format.inputs) * (code - format.offset));
        for (const float sum : sums) CHECK(sum == doctest::Approx(static_cast<double>(expected)).epsilon(1e-6));
      }
}

}  // namespace lazyprune_test
