// SPDX-License-Identifier: MIT
// Implements eigen.hpp. This file is built with -march=native and renames Eigen's namespace (see CMakeLists.txt), so the linker cannot use
// its Eigen code for other files.
#include "eigen.hpp"

#include <Eigen/Core>

namespace bench::eigen {

namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

template <class Matrix>
auto view(auto* data, std::size_t stride, std::size_t rows, std::size_t columns) {
  return Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(data, index(rows), index(columns), Eigen::OuterStride<>(index(stride)));
}

}  // namespace

void multiply_transposed(const float* x, std::size_t x_stride, const float* w, std::size_t w_stride, float* out, std::size_t out_stride,
                         std::size_t rows, std::size_t inputs, std::size_t outputs, bool add, int threads) {
  Eigen::setNbThreads(threads);
  const auto from = view<const matrix>(x, x_stride, rows, inputs), weights = view<const matrix>(w, w_stride, outputs, inputs);
  auto to = view<matrix>(out, out_stride, rows, outputs);
  if (add)
    to.noalias() += from * weights.transpose();
  else
    to.noalias() = from * weights.transpose();
}

void multiply(const float* p, std::size_t p_stride, const float* v, std::size_t v_stride, float* out, std::size_t out_stride,
              std::size_t rows, std::size_t inner, std::size_t columns, int threads) {
  Eigen::setNbThreads(threads);
  view<matrix>(out, out_stride, rows, columns).noalias() =
      view<const matrix>(p, p_stride, rows, inner) * view<const matrix>(v, v_stride, inner, columns);
}

}  // namespace bench::eigen
