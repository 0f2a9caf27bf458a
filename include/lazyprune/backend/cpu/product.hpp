// SPDX-License-Identifier: MIT
// Matrix products on one thread, by Eigen's kernels. The kernels are called one by one, in our memory, because Eigen's own products
// allocate, cut the sums where this machine's caches suggest, and start threads; here the same numbers are added in the same order
// anywhere.
#pragma once

#include <Eigen/Core>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/backend/tensor_backend.hpp>

namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd {

namespace kernels {

// Eigen's names do not tell instruction sets apart; types of this namespace in its templates' arguments do.
using index = Eigen::Index;
template <int Order>
struct input : Eigen::internal::const_blas_data_mapper<float, index, Order> {
  using Eigen::internal::const_blas_data_mapper<float, index, Order>::const_blas_data_mapper;
};
struct output : Eigen::internal::blas_data_mapper<float, index, Eigen::ColMajor> {
  using Eigen::internal::blas_data_mapper<float, index, Eigen::ColMajor>::blas_data_mapper;
};

using traits = Eigen::internal::gebp_traits<float, float>;
template <int Order>
using pack_left =
    Eigen::internal::gemm_pack_lhs<float, index, input<Order>, traits::mr, traits::LhsProgress, traits::LhsPacket4Packing, Order>;
using pack_right = Eigen::internal::gemm_pack_rhs<float, index, input<Eigen::ColMajor>, traits::nr, Eigen::ColMajor>;
using multiply = Eigen::internal::gebp_kernel<float, float, index, output, traits::mr, traits::nr>;

}  // namespace kernels

/// x (rows, depth) in the order in which the kernel reads it, into rows * depth floats on a cache line's boundary.
inline void pack_rows(rows_view<const float> x, float* packed) {
  kernels::pack_right{}(packed, {x.data, static_cast<kernels::index>(x.stride)}, static_cast<kernels::index>(x.columns),
                        static_cast<kernels::index>(x.rows));
}

/// The same for the other factor, w (outputs, depth).
inline void pack_weights(rows_view<const float> w, float* packed) {
  kernels::pack_left<Eigen::RowMajor>{}(packed, {w.data, static_cast<kernels::index>(w.stride)}, static_cast<kernels::index>(w.columns),
                                        static_cast<kernels::index>(w.rows));
}

/// The same for a factor that stands the other way round, w (depth, outputs).
inline void pack_weights_transposed(rows_view<const float> w, float* packed) {
  kernels::pack_left<Eigen::ColMajor>{}(packed, {w.data, static_cast<kernels::index>(w.stride)}, static_cast<kernels::index>(w.rows),
                                        static_cast<kernels::index>(w.columns));
}

/// out (rows, outputs) += x w^T of the packed factors, `depth` deep.
inline void add_product(const float* x, const float* w, std::size_t depth, rows_view<float> out) {
  kernels::multiply{}({out.data, static_cast<kernels::index>(out.stride)}, w, x, static_cast<kernels::index>(out.columns),
                      static_cast<kernels::index>(depth), static_cast<kernels::index>(out.rows), 1.0f);
}

}  // namespace lazyprune::inline v0::inline LAZYPRUNE_ISA::simd
