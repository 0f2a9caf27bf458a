// SPDX-License-Identifier: MIT
// The contract of every product_kernel, for one tile and every number of rows. Results are compared with the definition. For products, the
// numbers are exact in bf16, and their sums are exact in float.
#pragma once

#include <lazyprune/backend/cpu/kernels/product_kernel.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <backend/samples.hpp>
#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/memory/aligned_array.hpp>
#include <skip.hpp>

namespace lazyprune_test {

inline bool is_missing(lazyprune::isa instructions) {
  if (has(instructions)) return false;
  skip("a processor with " + std::string(name_of(instructions)));
  return true;
}

/// A strip of rows and a tile of a weight, in the layout of a kernel.
struct tile_sample {
  static constexpr std::size_t outputs = lazyprune::kernels::tile_outputs, line = lazyprune::kernels::line_bytes;

  /// The rows hold number(0), number(1) and so on. The weights hold number(1000), number(1001) and so on.
  template <class Number>
  tile_sample(const lazyprune::kernels::product_kernel& k, std::size_t rows_, std::size_t inputs_, const Number& number)
      : kernel(k), rows(rows_), inputs(inputs_), depth(k.line_inputs == 1 ? inputs : (inputs + 31) / 32 * 32) {
    for (std::size_t i = 0; i < rows * inputs; ++i) x.push_back(number(i));
    for (std::size_t i = 0; i < outputs * inputs; ++i) w.push_back(number(1000 + i));
    tile = lazyprune::aligned_array<std::byte>(offset(depth) + 64 * line);  // and room for lines that are prefetched but not used
    std::fill_n(tile.data(), tile.size(), std::byte{});
    for (std::size_t n = 0; n < outputs; ++n)
      for (std::size_t i = 0; i < inputs; ++i) {
        std::byte* at = tile.data() + offset(i) + n * 4;
        const std::uint16_t half = lazyprune::bf16_of_float(w[n * inputs + i]);
        if (kernel.line_inputs == 1)
          std::memcpy(at, &w[n * inputs + i], 4);
        else
          std::memcpy(at + i % 2 * 2, &half, 2);
      }
  }

  std::size_t offset(std::size_t input) const { return input / kernel.line_inputs * line; }  // of its line in the tile

  /// Returns the sums (count, 32) of `count` rows from `first` on. One call of the kernel adds the inputs before `cut`, and a second call
  /// adds the others. If `wide` is true, the weights are widened first.
  std::vector<float> sums(std::size_t first, std::size_t count, std::size_t cut, bool wide = false) const {
    lazyprune::aligned_array<std::byte> packed(kernel.padded(kernel.strip) * depth * kernel.unit_bytes / lazyprune::kernels::pack_inputs);
    std::vector<float> result(kernel.padded(kernel.strip) * outputs, 99.0f);
    const guarded<float> input(rows, inputs, x);
    kernel.pack(input.view().row(first), input.view().stride, count, inputs, depth, packed.data());
    lazyprune::aligned_array<float> widened(depth * outputs + 64 * line / 4);
    const auto lines = [&](std::size_t from, std::size_t n) {
      const std::byte* stored = tile.data() + offset(from);
      if (!wide) return stored;
      kernel.widen(stored, n, widened.data());
      return reinterpret_cast<const std::byte*>(widened.data());
    };
    const auto multiply = wide ? kernel.multiply_wide : kernel.multiply;
    kernel.enter();
    multiply(packed.data(), count, lines(0, cut), cut, result.data(),
             {false, {tile.data(), cut % 64 == 0 ? 24u : 64u}, kernel.ahead});  // one or two lines are prefetched at a time
    if (cut < depth)
      multiply(packed.data() + cut * kernel.padded(count) * kernel.unit_bytes / lazyprune::kernels::pack_inputs, count,
               lines(cut, depth - cut), depth - cut, result.data(), {true, lazyprune::kernels::no_prefetch(packed.data()), 0});
    kernel.leave();
    result.resize(count * outputs);
    return result;
  }

  const lazyprune::kernels::product_kernel& kernel;
  std::size_t rows, inputs, depth;
  std::vector<float> x;  // (rows, inputs)
  std::vector<float> w;  // (32, inputs)
  lazyprune::aligned_array<std::byte> tile;
};

/// Checks that packing writes each number where `packed_number` reads it, zeros after the inputs, and nothing else, and that parts of the
/// inputs are packed to the same bytes as all inputs together.
inline void check_packing(const lazyprune::kernels::product_kernel& kernel) {
  constexpr std::size_t unit = lazyprune::kernels::pack_inputs;
  for (std::size_t rows = 1; rows <= kernel.strip; ++rows)
    for (const std::size_t inputs : {1u, 7u, 8u, 9u, 16u, 31u, 32u, 33u, 48u, 64u, 100u}) {
      CAPTURE(rows);
      CAPTURE(inputs);
      const std::size_t depth = kernel.line_inputs == 1 ? inputs : (inputs + 31) / 32 * 32, padded = kernel.padded(rows);
      const std::size_t bytes = padded * depth * kernel.unit_bytes / unit;
      const guarded<float> x(rows, inputs, normal_floats(rows * inputs, 1));
      const auto in_parts = [&](std::size_t part) {
        std::vector<std::byte> packed(bytes + 256, std::byte{0x5a});
        for (std::size_t first = 0; first < inputs; first += part) {
          const std::size_t end = std::min(first + part, inputs);
          kernel.pack(x.view().data + first, x.view().stride, rows, end - first, (end < inputs ? end : depth) - first,
                      packed.data() + first * padded * kernel.unit_bytes / unit);
        }
        return packed;
      };
      const std::vector<std::byte> packed = in_parts(inputs);
      CHECK(
          std::all_of(packed.begin() + static_cast<std::ptrdiff_t>(bytes), packed.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < depth; ++i) {
          const float number = i < inputs ? x(r, i) : 0.0f, found = kernel.packed_number(packed.data(), padded, r, i);
          wrong += found != (kernel.unit_bytes == 64 ? lazyprune::float_of_bf16(lazyprune::bf16_of_float(number)) : number);
        }
      CHECK(wrong == 0);
      for (const std::size_t part : {unit, 2 * unit}) CHECK(in_parts(part) == packed);

      if (kernel.unit_bytes != 64) continue;
      std::vector<std::uint16_t> bits(rows * (depth + 3));  // rows in bf16, with numbers between them
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < inputs; ++i) bits[r * (depth + 3) + i] = lazyprune::bf16_of_float(x(r, i));
      std::vector<std::byte> same(bytes + 256, std::byte{0x5a});
      if (kernel.pack_rounded)
        kernel.pack_rounded(bits.data(), depth + 3, rows, depth, same.data());
      else  // packing moves lines of 32 inputs; padding rows repeat the last row
        for (std::size_t line = 0; line < depth / 32; ++line)
          for (std::size_t r = 0; r < padded; ++r)
            std::memcpy(same.data() + (line * padded + r) * 64, bits.data() + std::min(r, rows - 1) * (depth + 3) + line * 32, 64);
      CHECK(same == packed);
    }
}

inline void check_products(const lazyprune::kernels::product_kernel& kernel) {
  const auto number = [](std::size_t i) { return static_cast<float>(static_cast<int>(i * 2654435761u % 15) - 7); };
  for (std::size_t rows = 1; rows <= kernel.strip; ++rows)
    for (const std::size_t inputs : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 64u, 95u, 130u}) {
      CAPTURE(rows);
      CAPTURE(inputs);
      const tile_sample s(kernel, rows, inputs, number);
      std::vector<float> expected(rows * s.outputs);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t n = 0; n < s.outputs; ++n)
          for (std::size_t i = 0; i < inputs; ++i) expected[r * s.outputs + n] += s.x[r * inputs + i] * s.w[n * inputs + i];
      REQUIRE(s.sums(0, rows, s.depth) == expected);
      for (std::size_t cut = 32; cut < s.depth; cut += 32) REQUIRE(s.sums(0, rows, cut) == expected);
    }
}

/// Checks that a row gets the same bits at every place in a strip, with any other rows, and wherever the sum is cut.
inline void check_company(const lazyprune::kernels::product_kernel& kernel) {
  const auto numbers = normal_floats(1000 + 32 * 131, 1);
  const tile_sample s(kernel, kernel.strip, 131, [&](std::size_t i) { return numbers[i % numbers.size()]; });
  const auto together = s.sums(0, kernel.strip, s.depth);
  CHECK(s.sums(0, kernel.strip, 64) == together);
  std::size_t different = 0;
  for (std::size_t first = 0; first < kernel.strip; ++first)
    for (std::size_t count = 1; first + count <= kernel.strip; ++count) {
      const auto some = s.sums(first, count, s.depth);
      for (std::size_t i = 0; i < some.size(); ++i) different += some[i] != together[first * s.outputs + i];
    }
  CHECK(different == 0);
}

/// Checks that weights that are widened before the product give the same bits, wherever the sum is cut.
inline void check_widening(const lazyprune::kernels::product_kernel& kernel) {
  CHECK((kernel.widen == nullptr) == (kernel.multiply_wide == nullptr));
  if (!kernel.widen) return;
  const auto numbers = normal_floats(1000 + 32 * 131, 1);
  for (const std::size_t inputs : {1u, 32u, 33u, 131u})
    for (std::size_t rows = 1; rows <= kernel.strip; ++rows) {
      CAPTURE(rows);
      CAPTURE(inputs);
      const tile_sample s(kernel, rows, inputs, [&](std::size_t i) { return numbers[i % numbers.size()]; });
      for (std::size_t cut = 32; cut <= s.depth; cut += 32) REQUIRE(s.sums(0, rows, cut, true) == s.sums(0, rows, cut));
    }
}

/// Checks that rows that are not packed give the same bits as packed rows.
inline void check_unpacked(const lazyprune::kernels::product_kernel& kernel) {
  constexpr std::size_t stride = lazyprune::kernels::unpacked_stride;
  if (!kernel.multiply_unpacked || kernel.line_inputs != 1) return;
  const auto numbers = normal_floats(1000 + 32 * stride, 1);
  for (const std::size_t depth : {1u, 32u, 131u, 256u})
    for (std::size_t rows = 1; rows <= kernel.strip; ++rows) {
      CAPTURE(rows);
      CAPTURE(depth);
      const tile_sample s(kernel, rows, depth, [&](std::size_t i) { return numbers[i % numbers.size()]; });
      std::vector<float> x(rows * stride), sums = normal_floats(kernel.strip * s.outputs, 2), before = sums;
      for (std::size_t r = 0; r < rows; ++r) std::copy_n(s.x.data() + r * depth, depth, x.data() + r * stride);
      kernel.multiply_unpacked(x.data(), rows, s.tile.data(), depth, sums.data(), false);
      CHECK(std::equal(sums.begin() + static_cast<std::ptrdiff_t>(rows * s.outputs), sums.end(),
                       before.begin() + static_cast<std::ptrdiff_t>(rows * s.outputs)));
      sums.resize(rows * s.outputs);
      REQUIRE(sums == s.sums(0, rows, depth));
      const std::size_t cut = depth / 2;
      kernel.multiply_unpacked(x.data(), rows, s.tile.data(), cut, sums.data(), false);
      kernel.multiply_unpacked(x.data() + cut, rows, s.tile.data() + s.offset(cut), depth - cut, sums.data(), true);
      REQUIRE(sums == s.sums(0, rows, depth));
    }
}

inline void check_epilogues(const lazyprune::kernels::product_kernel& kernel) {
  const std::size_t outputs = tile_sample::outputs, half = outputs / 2;
  for (std::size_t rows = 1; rows <= kernel.strip; ++rows) {
    const auto sums = normal_floats(rows * outputs, 1, 4), bias = normal_floats(outputs, 2), before = normal_floats(rows * outputs, 3);
    guarded<float> stored(rows, outputs), added(rows, outputs, before), gated(rows, half), gelu(rows, half);
    kernel.store(sums.data(), rows, bias.data(), stored.view().data, stored.view().stride);
    kernel.add(sums.data(), rows, bias.data(), added.view().data, added.view().stride);
    kernel.gate_silu(sums.data(), rows, bias.data(), gated.view().data, gated.view().stride);
    kernel.gate_gelu_tanh(sums.data(), rows, bias.data(), gelu.view().data, gelu.view().stride);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t n = 0; n < outputs; ++n) {
        const float sum = sums[r * outputs + n] + bias[n];
        REQUIRE(stored(r, n) == sum);
        REQUIRE(added(r, n) == before[r * outputs + n] + sum);
        if (n >= half) continue;
        const double up = sums[r * outputs + half + n] + bias[half + n], exact = sum / (1 + std::exp(-static_cast<double>(sum))) * up;
        REQUIRE(std::abs(gated(r, n) - exact) <= 8 * 0x1p-24 * std::abs(exact));  // an exp of 4 u, a sum, a quotient, a product
        const double y = std::sqrt(8 / std::numbers::pi) * sum * (1 + 0.044715 * sum * sum), exact_gelu = sum / (1 + std::exp(-y)) * up;
        REQUIRE(std::abs(gelu(r, n) - exact_gelu) <= (8 + 5 * std::abs(y)) * 0x1p-24 * std::abs(exact_gelu) + 0x1p-126);
      }
    CHECK(stored.untouched());
    CHECK(added.untouched());
    CHECK(gated.untouched());
    CHECK(gelu.untouched());
  }
}

/// Checks that a gate is x / (1 + e^-exponent(x)) over the whole range of float: 0 or x at the ends of the range, and NaN for NaN.
/// `roundings_of_exponent` is the relative error of the exponent in u.
template <class Gate, class Exponent>
void check_gate(const Gate& gate, const Exponent& exponent, double roundings_of_exponent) {
  std::vector<float> gates;
  for (float x = 1e-30f; x < 1e30f; x *= 1.37f)
    for (const float sign : {1.0f, -1.0f}) gates.push_back(sign * x);
  for (float x = -110; x < 110; x += 0.37f) gates.push_back(x);
  for (float x = -12; x < 12; x += 0.037f) gates.push_back(x);
  for (const float x : {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) gates.push_back(x);
  gates.resize((gates.size() + 15) / 16 * 16);
  const std::vector<float> no_bias(tile_sample::outputs);
  double worst = 0;
  for (std::size_t first = 0; first < gates.size(); first += 16) {
    float sums[tile_sample::outputs], out[16];
    std::copy_n(gates.data() + first, 16, sums);
    std::fill_n(sums + 16, 16, 1.0f);
    gate(sums, 1, no_bias.data(), out, 16);
    for (std::size_t i = 0; i < 16; ++i) {
      const double x = gates[first + i], y = exponent(x), exact = x / (1 + std::exp(-y));
      if (std::isnan(x)) {
        CHECK(std::isnan(out[i]));
      } else if (std::isinf(x)) {
        CHECK(out[i] == gates[first + i]);
      } else if (y > -88) {
        const double allowed = (7 + roundings_of_exponent * std::min(std::abs(y), 88.0)) * 0x1p-24;  // an exp of 4 u, a sum, a quotient
        worst = std::max(worst, std::abs(out[i] - exact) / std::max(0x1p-126, std::abs(exact)) / allowed);
      } else {
        CHECK(out[i] <= 0);
        CHECK(out[i] >= 1.01 * exact - 0x1p-126);  // e^-y may overflow to infinity, and then the quotient is 0
      }
    }
  }
  CHECK(worst <= 1);
}

inline void check_kernel(const lazyprune::kernels::product_kernel& kernel) {
  SUBCASE("packing") { check_packing(kernel); }
  SUBCASE("products") { check_products(kernel); }
  SUBCASE("a row among other rows") { check_company(kernel); }
  SUBCASE("weights that are widened first") { check_widening(kernel); }
  SUBCASE("rows that are not packed") { check_unpacked(kernel); }
  SUBCASE("epilogues") { check_epilogues(kernel); }
  SUBCASE("silu") {
    check_gate(
        kernel.gate_silu, [](double x) { return x; }, 0);
  }
  SUBCASE("GELU, approximated by tanh") {
    check_gate(
        kernel.gate_gelu_tanh, [](double x) { return std::sqrt(8 / std::numbers::pi) * (x + 0.044715 * x * x * x); }, 5);
  }
}

}  // namespace lazyprune_test
