// SPDX-License-Identifier: MIT
// A weight in memory, row by row as it was stored, and the products of a few rows with it: those take the time that reading it takes.
#pragma once

#include <variant>

#include <lazyprune/backend/cpu/elementwise.hpp>
#include <lazyprune/backend/cpu/parallel.hpp>

namespace lazyprune::inline v0 {

/// (outputs, inputs) in float or bf16; each row is padded with zeros to whole batches of any instruction set.
class cpu_matrix {
 public:
  using storage = std::variant<aligned_array<float>, aligned_array<std::uint16_t>>;  // (outputs, stride)

  /// Throws `error` unless the parts have the same inputs and `as` is f32 or bf16.
  cpu_matrix(std::span<const tensor> parts, dtype as, int threads)
      : outputs_(detail::stacked_outputs(parts, as)), inputs_(parts[0].columns), stride_((inputs_ + 31) / 32 * 32) {
    if (as == dtype::f32)
      fill(values_.emplace<aligned_array<float>>(outputs_ * stride_).data(), parts, threads);
    else
      fill(values_.emplace<aligned_array<std::uint16_t>>(outputs_ * stride_).data(), parts, threads);
  }

  std::size_t outputs() const { return outputs_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t stride() const { return stride_; }
  const storage& values() const { return values_; }
  std::size_t bytes() const {
    return std::visit([](const auto& values) { return values.bytes(); }, values_);
  }

 private:
  template <class Stored>
  void fill(Stored* to, std::span<const tensor> parts, int threads) {
    for (const tensor& part : parts) {
      detail::for_tasks(threads, part.rows, [&](std::size_t row, std::size_t) {
        convert(part, row, to + row * stride_);
        std::fill(to + row * stride_ + inputs_, to + (row + 1) * stride_, Stored{});
      });
      to += part.rows * stride_;
    }
  }

  static void convert(const tensor& from, std::size_t row, float* to) { widen(from, row * from.columns, from.columns, to); }

  static void convert(const tensor& from, std::size_t row, std::uint16_t* to) {
    if (from.type == dtype::bf16) {
      if (from.columns) std::memcpy(to, from.data + row * from.columns * 2, from.columns * 2);
      return;
    }
    for (std::size_t i = 0; i < from.columns; ++i) {
      float value;
      widen(from, row * from.columns + i, 1, &value);
      to[i] = bf16_of_float(value);
    }
  }

  std::size_t outputs_;
  std::size_t inputs_;
  std::size_t stride_;
  storage values_;
};

}  // namespace lazyprune::inline v0

namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd {

inline void widen(const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); }

inline void widen(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = float_of_bf16(from[i]);
}

struct batch_pair {
  batch first;
  batch second;
};

inline batch_pair load_pair(const float* from) { return {batch::load_aligned(from), batch::load_aligned(from + batch::size)}; }

/// Of two batches of numbers, those at even places and those at odd ones: that takes a shift and a mask.
inline batch_pair load_pair(const std::uint16_t* from) {
  const auto bits = xsimd::batch<std::uint32_t>::load_aligned(reinterpret_cast<const std::uint32_t*>(from));
  return {xsimd::bitwise_cast<batch>(bits << 16), xsimd::bitwise_cast<batch>(bits & xsimd::batch<std::uint32_t>(0xffff'0000u))};
}

/// x (rows, inputs) as `load_pair` gives the weights that it meets, padded with zeros: (rows, stride).
inline void arrange(rows_view<const float> x, std::size_t stride, const float*, float* out) {
  for (std::size_t r = 0; r < x.rows; ++r, out += stride) std::fill(std::copy_n(x.row(r), x.columns, out), out + stride, 0.0f);
}

inline void arrange(rows_view<const float> x, std::size_t stride, const std::uint16_t*, float* out) {
  for (std::size_t r = 0; r < x.rows; ++r)
    for (std::size_t first = 0; first < stride; first += 2 * batch::size)
      for (std::size_t odd = 0; odd < 2; ++odd)
        for (std::size_t i = 0; i < batch::size; ++i) {
          const std::size_t at = first + 2 * i + odd;
          *out++ = at < x.columns ? x.row(r)[at] : 0.0f;
        }
}

/// sums (Rows, Weights), rows `sums_stride` apart: each row times each weight. How many there are of either does not change a sum.
template <std::size_t Rows, std::size_t Weights, class Stored>
void multiply_tile(const float* x, const Stored* w, std::size_t stride, float* sums, std::size_t sums_stride) {
  batch first[Rows][Weights], second[Rows][Weights];
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t n = 0; n < Weights; ++n) first[r][n] = second[r][n] = batch(0.0f);
  for (std::size_t i = 0; i < stride; i += 2 * batch::size)
    for (std::size_t n = 0; n < Weights; ++n) {
      const batch_pair weight = load_pair(w + n * stride + i);
      for (std::size_t r = 0; r < Rows; ++r) {
        first[r][n] = xsimd::fma(batch::load_aligned(x + r * stride + i), weight.first, first[r][n]);
        second[r][n] = xsimd::fma(batch::load_aligned(x + r * stride + i + batch::size), weight.second, second[r][n]);
      }
    }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t n = 0; n < Weights; ++n) sums[r * sums_stride + n] = xsimd::hadd(first[r][n] + second[r][n]);
}

/// sums (rows, outputs), rows `sums_stride` apart, of arranged rows and the weights from `w` on.
template <class Stored>
void multiply_few(const float* x, std::size_t rows, const Stored* w, std::size_t outputs, std::size_t stride, float* sums,
                  std::size_t sums_stride) {
  std::size_t n = 0;
  if (rows == 1)  // four weights at a time keep the memory busy; more rows share what is read for two
    for (; n + 4 <= outputs; n += 4) multiply_tile<1, 4>(x, w + n * stride, stride, sums + n, sums_stride);
  for (; n + 2 <= outputs; n += 2) {
    std::size_t r = 0;
    for (; r + 2 <= rows; r += 2) multiply_tile<2, 2>(x + r * stride, w + n * stride, stride, sums + r * sums_stride + n, sums_stride);
    if (r < rows) multiply_tile<1, 2>(x + r * stride, w + n * stride, stride, sums + r * sums_stride + n, sums_stride);
  }
  if (n < outputs)
    for (std::size_t r = 0; r < rows; ++r)
      multiply_tile<1, 1>(x + r * stride, w + n * stride, stride, sums + r * sums_stride + n, sums_stride);
}

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd
