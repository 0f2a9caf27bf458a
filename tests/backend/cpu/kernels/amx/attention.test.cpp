// SPDX-License-Identifier: MIT
#include <lazyprune/backend/cpu/kernels/amx/attention.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <backend/cpu/kernels/contract.hpp>
#include <backend/cpu/kernels/softmax_contract.hpp>
#include <backend/samples.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("the running softmax beside AMX") {
  if (is_missing(isa::amx)) return;
  check_attention_kernel(kernels::amx::attention);
}

TEST_CASE("soften computes the next scores with the bits of multiply") {
  if (is_missing(isa::amx)) return;
  const kernels::product_kernel& product = kernels::amx::bf16;
  constexpr std::size_t tile = kernels::tile_outputs;
  product.enter();
  for (const std::size_t softmax_rows : {1u, 16u, 17u, 32u})
    for (const std::size_t rows : {1u, 16u, 17u, 32u})
      for (const std::size_t depth : {32u, 64u, 128u, 256u})
        for (const std::size_t tiles : {1u, 3u, 4u}) {
          CAPTURE(softmax_rows);
          CAPTURE(rows);
          CAPTURE(depth);
          CAPTURE(tiles);
          const auto q = normal_floats(rows * depth, 3);
          std::vector<std::uint16_t> queries(product.padded(rows) * depth), keys(tiles * tile * depth);
          auto* const packed = reinterpret_cast<std::byte*>(queries.data());
          product.pack(q.data(), depth, rows, depth, depth, packed);
          const auto of_keys = normal_floats(keys.size(), 4);
          for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = bf16_of_float(of_keys[i]);

          const std::size_t tile_floats = product.padded(rows) * tile + 7;
          std::vector<float> expected(tiles * tile_floats, -9), scores = expected;
          for (std::size_t t = 0; t < tiles; ++t)
            product.multiply(packed, rows, reinterpret_cast<const std::byte*>(keys.data() + t * tile * depth), depth,
                             expected.data() + t * tile_floats, {false, kernels::no_prefetch(packed), product.ahead});

          softmax_sample alone(kernels::amx::attention, softmax_rows), both = alone;
          const auto block = normal_floats(softmax_rows * softmax_sample::keys, 5);
          const std::vector<kernels::rank_range> seen(softmax_rows, {0, 1000});
          alone.take(block, nullptr, seen);
          const kernels::score_task next{packed,        rows,       reinterpret_cast<const std::byte*>(keys.data()), tiles, depth,
                                         scores.data(), tile_floats};
          both.take(block, nullptr, seen, &next);
          CHECK(scores == expected);
          CHECK(both.weights == alone.weights);
          CHECK(both.mass == alone.mass);
        }
  product.leave();
}
