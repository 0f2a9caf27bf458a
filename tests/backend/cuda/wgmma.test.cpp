// SPDX-License-Identifier: MIT
// Tests the products of a warpgroup, on the emulated device or on a GPU. All numbers are integers that bf16 has, so results are exact.
#include <lazyprune/backend/cuda/wgmma.hpp>

#include <lazyprune/backend/cuda/launch.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;
using device::global;
using device::shared;

namespace {

constexpr unsigned matrix_rows = 128, block_threads = 256;  // two warpgroups

/// Copies a matrix (128, columns) to the place where products expect it.
template <unsigned Columns>
__device__ void place_matrix(global<const std::uint16_t> from, shared<std::uint16_t> to) {
  for (unsigned i = threadIdx.x; i < matrix_rows * Columns; i += block_threads)
    to[device::wgmma_place(matrix_rows, i / Columns, i % Columns)] = from[i];
}

/// Writes the numbers of a warpgroup's product to its 64 rows of `out`.
template <unsigned Tiles>
__device__ void write_product(const float (&d)[Tiles][4], global<float> out) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (unsigned n = 0; n < Tiles; ++n)
    for (unsigned r = 0; r < 4; ++r) out[(warp * 16 + lane / 4 + r / 2 * 8) * Tiles * 8 + n * 8 + lane % 4 * 2 + r % 2] = d[n][r];
}

/// Writes out = a b^T + a b^T, with a and b (128, Columns).
template <unsigned Columns>
__global__ void columns_of_b(global<const std::uint16_t> a, global<const std::uint16_t> b, global<float> out) {
  if constexpr (device::has_wgmma) {
    const shared<std::uint16_t> left = device::shared_memory<std::uint16_t>(0), right = left + matrix_rows * Columns;
    place_matrix<Columns>(a, left), place_matrix<Columns>(b, right);
    device::wgmma_publish();
    __syncthreads();
    const device::wgmma_operand all_a(left, matrix_rows), all_b(right, matrix_rows);
    float d[16][4];
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < 16; ++n) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 4; ++r) d[n][r] = 1e30f;
    device::wgmma_fence();
    LAZYPRUNE_UNROLL for (unsigned twice = 0; twice < 2; ++twice) LAZYPRUNE_UNROLL for (unsigned k = 0; k < Columns; k += 16) {
      const device::wgmma_operand own_a = all_a.from(device::wgmma_place(matrix_rows, threadIdx.x / 128 * 64, 0));
      device::wgmma(d, own_a.from(device::wgmma_place(matrix_rows, 0, k)), all_b.from(device::wgmma_place(matrix_rows, 0, k)),
                    twice > 0 || k > 0);
    }
    device::wgmma_commit();
    device::wgmma_wait<0>(d);
    write_product(d, out);
  }
}

/// Writes out = 5 + a b, with a (128, 128) and b (128, Columns).
template <unsigned Columns>
__global__ void rows_of_b(global<const std::uint16_t> a, global<const std::uint16_t> b, global<float> out) {
  if constexpr (device::has_wgmma) {
    const shared<std::uint16_t> right = device::shared_memory<std::uint16_t>(0);
    place_matrix<Columns>(b, right);
    const unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
    std::uint32_t left[8][1][4];
    LAZYPRUNE_UNROLL for (unsigned k = 0; k < 8; ++k) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 4; ++r) {
      const unsigned at = (row + r % 2 * 8) * 128 + k * 16 + pair + r / 2 * 8;
      left[k][0][r] = a[at] | static_cast<std::uint32_t>(a[at + 1]) << 16;
    }
    device::wgmma_publish();
    __syncthreads();
    const device::wgmma_operand all_b(right, matrix_rows);
    float d[Columns / 8][4];
    LAZYPRUNE_UNROLL for (unsigned n = 0; n < Columns / 8; ++n) LAZYPRUNE_UNROLL for (unsigned r = 0; r < 4; ++r) d[n][r] = 5;
    device::wgmma_fence();
    LAZYPRUNE_UNROLL for (unsigned k = 0; k < 8; ++k)
        device::wgmma_by_rows(d, left[k][0], all_b.from(device::wgmma_place(matrix_rows, k * 16, 0)));
    device::wgmma_commit();
    device::wgmma_wait<0>(d, left);
    write_product(d, out);
  }
}

/// A matrix of integers from -8 to 8.
std::vector<std::uint16_t> matrix(unsigned columns, unsigned seed) {
  std::vector<std::uint16_t> numbers(matrix_rows * columns);
  for (unsigned i = 0; i < numbers.size(); ++i)
    numbers[i] = bf16_of_float(static_cast<float>(static_cast<int>((i + seed) * 2654435761u >> 7 & 0xffffu) % 17 - 8));
  return numbers;
}

template <class Kernel>
std::vector<float> product(Kernel kernel, const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, unsigned columns) {
  on_device<std::uint16_t> left(a), right(b);
  on_device<float> out(matrix_rows * columns);
  device::launch(kernel, {1}, {block_threads}, (a.size() + b.size()) * 2, device::stream(), left.data(), right.data(), out.data());
  return out.numbers();
}

template <unsigned Columns>
void check_products() {
  CAPTURE(Columns);
  const auto a = matrix(Columns, 1), b = matrix(Columns, 1000), p = matrix(128, 50);
  const auto scores = product(columns_of_b<Columns>, a, b, 128), sums = product(rows_of_b<Columns>, p, b, Columns);
  std::size_t wrong = 0;
  for (unsigned i = 0; i < matrix_rows; ++i) {
    for (unsigned j = 0; j < 128; ++j) {
      float sum = 0;
      for (unsigned k = 0; k < Columns; ++k) sum += 2 * float_of_bf16(a[i * Columns + k]) * float_of_bf16(b[j * Columns + k]);
      wrong += scores[i * 128 + j] != sum;
    }
    for (unsigned j = 0; j < Columns; ++j) {
      float sum = 5;
      for (unsigned k = 0; k < 128; ++k) sum += float_of_bf16(p[i * 128 + k]) * float_of_bf16(b[k * Columns + j]);
      wrong += sums[i * Columns + j] != sum;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("two warpgroups multiply matrices in shared memory, and matrices in registers by rows in shared memory") {
  if (!device::kernels_have_wgmma()) {
    MESSAGE("skipped: the kernels are compiled without wgmma");
    return;
  }
  check_products<64>();
  check_products<128>();
}
