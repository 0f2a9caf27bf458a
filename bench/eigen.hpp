// SPDX-License-Identifier: MIT
// The reference column that is always there: Eigen's products in f32, compiled for the machine that compiles.
#pragma once

#include <cstddef>

namespace bench::eigen {

/// out (rows, outputs) = x (rows, inputs) times w^T, w (outputs, inputs); rows of each `stride` floats apart. `add`: += instead.
void multiply_transposed(const float* x, std::size_t x_stride, const float* w, std::size_t w_stride, float* out, std::size_t out_stride,
                         std::size_t rows, std::size_t inputs, std::size_t outputs, bool add, int threads);

/// out (rows, columns) = p (rows, inner) v, v (inner, columns).
void multiply(const float* p, std::size_t p_stride, const float* v, std::size_t v_stride, float* out, std::size_t out_stride,
              std::size_t rows, std::size_t inner, std::size_t columns, int threads);

}  // namespace bench::eigen
