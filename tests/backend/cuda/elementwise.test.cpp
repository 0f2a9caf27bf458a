// SPDX-License-Identifier: MIT
// The kernels alone, where the contract of the backend (cuda.test.cpp) does not look: what is rounded, and rows in rows.
#include <lazyprune/backend/cuda/elementwise.cuh>

#include <doctest/doctest.h>

#include <backend/samples.hpp>
#include <lazyprune/backend/cuda/launch.hpp>

#include "on_device.hpp"

using namespace lazyprune;
using namespace lazyprune_test;
using device::launch;

namespace {

__global__ void sum_and_most(device::global<const float> in, device::global<float> to) {
  const float sum = device::block_sum(in[threadIdx.x], device::shared_memory<float>(0));
  __syncthreads();
  const float most = device::block_most(in[threadIdx.x], device::shared_memory<float>(0));
  to[2 * threadIdx.x] = sum;
  to[2 * threadIdx.x + 1] = most;
}

}  // namespace

TEST_CASE("rows become bf16 with zeros behind them") {
  const auto x = normal_floats(3 * 7, 1);
  on_device<float> from(x);
  on_device<std::uint16_t> to(3 * 16);
  launch(device::round_rows<float>, {3}, {32}, 0, device::stream(), device::row_span<const float>{from.data(), 7}, std::size_t{7},
         device::row_span<std::uint16_t>{to.data(), 16});
  const auto rounded = to.numbers();
  for (std::size_t i = 0; i < rounded.size(); ++i) CHECK(rounded[i] == (i % 16 < 7 ? bf16_of_float(x[i / 16 * 7 + i % 16]) : 0));
}

TEST_CASE("rows move from type to type") {
  const auto x = normal_floats(2 * 5, 1);
  on_device<float> from(x), back(2 * 5);
  on_device<std::uint16_t> halves(2 * 5);
  on_device<device::row_move> there(std::vector<device::row_move>{{from.data(), halves.data() + 5}, {from.data() + 5, halves.data()}});
  on_device<device::row_move> here(std::vector<device::row_move>{{halves.data(), back.data()}, {halves.data() + 5, back.data() + 5}});
  launch(device::move_rows<float, std::uint16_t>, {2}, {32}, 0, device::stream(), there.data(), std::size_t{5});
  launch(device::move_rows<std::uint16_t, float>, {2}, {32}, 0, device::stream(), here.data(), std::size_t{5});
  const auto numbers = back.numbers();
  for (std::size_t i = 0; i < 10; ++i) CHECK(numbers[i] == float_of_bf16(bf16_of_float(x[(i + 5) % 10])));
}

TEST_CASE("a block's sum and largest number are those of all its threads, the same in each") {
  for (const unsigned warps : {1u, 3u, 8u}) {
    std::vector<float> x(warps * 32);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 97) - 200;
    on_device<float> from(x), out(2 * x.size());
    launch(sum_and_most, {1}, {warps * 32}, warps * sizeof(float), device::stream(), from.data(), out.data());
    float sum = 0, most = x[0];
    for (const float value : x) sum += value, most = std::max(most, value);
    const auto got = out.numbers();
    for (std::size_t i = 0; i < got.size(); i += 2) {
      CHECK(got[i] == sum);
      CHECK(got[i + 1] == most);
    }
  }
}

TEST_CASE("as many threads as a row has use for") {
  CHECK(device::threads_for(1) == 32);
  CHECK(device::threads_for(128) == 32);
  CHECK(device::threads_for(129) == 64);
  CHECK(device::threads_for(4096) == 256);
}
