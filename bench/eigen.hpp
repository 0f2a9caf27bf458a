// SPDX-License-Identifier: MIT
// Eigen's matrix products in f32, compiled for the processor of the machine that compiles. Every build of the benchmarks measures them:
// they are the reference column of the results.
#pragma once

#include <cstddef>

namespace bench::eigen {

/// Computes out = x w^T. The shapes are out: (rows, outputs), x: (rows, inputs), w: (outputs, inputs). With `add`, the product is added to
/// `out` instead. The strides are in floats, from row to row.
void multiply_transposed(const float* x, std::size_t x_stride, const float* w, std::size_t w_stride, float* out, std::size_t out_stride,
                         std::size_t rows, std::size_t inputs, std::size_t outputs, bool add, int threads);

/// Computes out = p v. The shapes are out: (rows, columns), p: (rows, inner), v: (inner, columns).
void multiply(const float* p, std::size_t p_stride, const float* v, std::size_t v_stride, float* out, std::size_t out_stride,
              std::size_t rows, std::size_t inner, std::size_t columns, int threads);

}  // namespace bench::eigen
