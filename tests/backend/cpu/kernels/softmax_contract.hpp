// SPDX-License-Identifier: MIT
// The contract of every attention_kernel. The running softmax is compared with its definition in double.
#pragma once

#include <lazyprune/backend/cpu/kernels/attention_kernel.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <backend/samples.hpp>
#include <lazyprune/backend/tensor.hpp>

namespace lazyprune_test {

/// The running softmax of some rows, to which blocks of scores are added one after another.
struct softmax_sample {
  static constexpr std::size_t tiles = 3, tile = lazyprune::kernels::tile_outputs, keys = tiles * tile,
                               lanes = lazyprune::kernels::mass_lanes;

  softmax_sample(const lazyprune::kernels::attention_kernel& k, std::size_t rows_)
      : kernel(k),
        rows(rows_),
        largest(rows, lazyprune::kernels::no_score),
        mass(rows * lanes),
        fade(rows),
        weights(rows * (keys + 5), -9),
        bits(weights.size()) {}

  /// Adds the scores in `block` (rows, keys) to the softmax. Returns the scores as `soften` leaves them, in the same order.
  std::vector<float> take(const std::vector<float>& block, const std::int32_t* ranks,
                          const std::vector<lazyprune::kernels::rank_range>& seen, const lazyprune::kernels::score_task* next = nullptr) {
    std::vector<float> scores(tiles * tile_floats(), -9), result(block.size());
    const auto at = [&](std::size_t r, std::size_t key) -> float& { return scores[key / tile * tile_floats() + r * tile + key % tile]; };
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t key = 0; key < keys; ++key) at(r, key) = block[r * keys + key];
    const std::size_t bytes = kernel.weight_bytes;
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = lazyprune::bf16_of_float(weights[i]);
    auto* const to = in_bf16() ? reinterpret_cast<std::byte*>(bits.data()) : reinterpret_cast<std::byte*>(weights.data());
    kernel.soften(scores.data(), tile_floats(), tiles, rows, ranks, seen.data(), largest.data(), mass.data(), fade.data(),
                  {to, (keys + 5) * bytes, tile * bytes}, next);
    if (in_bf16())
      for (std::size_t i = 0; i < bits.size(); ++i) weights[i] = lazyprune::float_of_bf16(bits[i]);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t key = 0; key < keys; ++key) result[r * keys + key] = at(r, key);
    return result;
  }

  bool in_bf16() const { return kernel.weight_bytes == sizeof(std::uint16_t); }
  std::size_t tile_floats() const { return (rows + 2) * tile; }
  double total(std::size_t r) const {
    return std::accumulate(mass.begin() + static_cast<std::ptrdiff_t>(r * lanes),
                           mass.begin() + static_cast<std::ptrdiff_t>((r + 1) * lanes), 0.0);
  }

  const lazyprune::kernels::attention_kernel& kernel;
  std::size_t rows;
  std::vector<float> largest, mass, fade, weights;
  std::vector<std::uint16_t> bits;  // the weights in bf16
};

inline void check_attention_kernel(const lazyprune::kernels::attention_kernel& kernel) {
  constexpr float none = lazyprune::kernels::no_score;
  constexpr std::size_t keys = softmax_sample::keys;
  // There are three blocks of keys. In the first block, every row sees all keys. In the other two blocks, ranks decide which keys a row
  // sees. In the third block, every other row sees no key.
  for (const std::size_t rows : {1u, 5u, 12u, 16u, 17u, 32u}) {
    CAPTURE(rows);
    softmax_sample s(kernel, rows);
    std::vector<double> most(rows, none), sum(rows);
    double worst = 0, worst_weight = 0;
    for (std::uint32_t block = 0; block < 3; ++block) {
      const auto scores = normal_floats(rows * keys, 7 + block, 5);
      std::vector<std::int32_t> ranks(keys);
      std::vector<lazyprune::kernels::rank_range> seen(rows);
      for (std::size_t k = 0; k < keys; ++k)
        ranks[k] = k % 5 == 4 ? std::numeric_limits<std::int32_t>::max() : static_cast<std::int32_t>((k * 37 + block) % 100);
      for (std::size_t r = 0; r < rows; ++r) {
        const auto end = block == 2 && r % 2 ? 0 : static_cast<std::int32_t>(20 + 6 * r);
        seen[r] = {r % 3 == 2 ? end / 2 : 0, end};
      }
      const auto left = s.take(scores, block == 0 ? nullptr : ranks.data(), seen);
      for (std::size_t r = 0; r < rows; ++r) {
        double here = most[r];
        for (std::size_t k = 0; k < keys; ++k) {
          const bool counts = block == 0 || (seen[r].first <= ranks[k] && ranks[k] < seen[r].end);
          REQUIRE(left[r * keys + k] == (counts ? scores[r * keys + k] : none));
          if (counts) here = std::max<double>(here, scores[r * keys + k]);
        }
        REQUIRE(s.largest[r] == here);
        const double faded = block == 0 ? 0 : std::exp(most[r] - here);
        worst = std::max(worst, std::abs(s.fade[r] - faded));
        sum[r] *= faded;
        for (std::size_t k = 0; k < keys; ++k) {
          const double weight = std::exp(left[r * keys + k] - here);
          worst_weight =
              std::max(worst_weight, std::abs(s.weights[r * (keys + 5) + k] - weight) / (s.in_bf16() ? std::max(weight, 1e-30) : 1.0));
          sum[r] += weight;
        }
        for (std::size_t k = keys; k < keys + 5; ++k) REQUIRE(s.weights[r * (keys + 5) + k] == -9);
        most[r] = here;
        // Each block adds six weights to a lane. The exp puts an error of up to 4 u into each weight, with u = 2^-24.
        CHECK(std::abs(s.total(r) - sum[r]) <= (s.in_bf16() ? 1.1e-4 : 30 * 0x1p-24) * sum[r]);
      }
    }
    // A difference x of two scores has a relative error of up to u. This changes e^-x by up to x e^-x u <= 0.4 u. The exp itself adds 4 u.
    CHECK(worst <= 6 * 0x1p-24);
    // Weights in bf16 have the polynomial's relative error, and that of the rounding.
    CHECK(worst_weight <= (s.in_bf16() ? 1.1e-4 + 0x1p-8 : 6 * 0x1p-24));
  }

  // If a row has seen no key yet, its mass is 0 and its fade is finite, so no NaN arises.
  softmax_sample empty(kernel, 3);
  const std::vector<std::int32_t> later(keys, 50);
  empty.take(std::vector<float>(3 * keys, 3.0f), later.data(), {{0, 50}, {50, 51}, {51, 1000}});
  CHECK(empty.largest[0] == none);
  CHECK(empty.total(0) == 0);
  CHECK(std::isfinite(empty.fade[0]));
  CHECK(empty.largest[2] == none);
  CHECK(empty.total(2) == 0);
  CHECK(empty.largest[1] == 3.0f);
  CHECK(empty.total(1) == keys);

  std::vector<float> sums(2 * 3 * 32 + 7);
  std::iota(sums.begin(), sums.end(), 1.0f);
  const auto before = sums;
  const float by[] = {0.5f, -2.0f};
  kernel.scale(sums.data(), 3 * 32, 2, 2, by);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t r = i % 96 / 32;
    CHECK(sums[i] == (i < 192 && r < 2 ? before[i] * by[r] : before[i]));
  }

  // soft_cap computes cap * tanh(x). The relative error is no larger near 0, NaN gives NaN, and rows that are not passed do not change.
  std::vector<float> xs{0.0f, 1e30f, -1e30f, none, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  for (float x = 1e-30f; x < 40; x *= 1.01f)
    for (const float sign : {1.0f, -1.0f}) xs.push_back(sign * x);
  xs.resize((xs.size() + 63) / 64 * 64);
  const std::size_t stride = 3 * 32;  // tiles have three rows; the kernel caps two
  std::vector<float> capped(xs.size() / 64 * stride, 5.0f);
  const auto place = [&](std::size_t i) -> float& { return capped[i / 64 * stride + i % 64]; };
  for (std::size_t i = 0; i < xs.size(); ++i) place(i) = xs[i];
  kernel.soft_cap(capped.data(), stride, xs.size() / 64, 2, 30.0f);
  double worst = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double exact = 30 * std::tanh(static_cast<double>(xs[i]));
    if (std::isnan(xs[i])) {
      CHECK(std::isnan(place(i)));
    } else {
      CHECK(std::abs(place(i)) <= 30);
      worst = std::max(worst, std::abs(place(i) - exact) / std::max(0x1p-126, std::abs(exact)));
    }
  }
  CHECK(worst <= 8 * 0x1p-24);  // the rounding errors of a polynomial, two sums, a quotient and a product
  for (std::size_t t = 0; t < xs.size() / 64; ++t)
    for (std::size_t i = 64; i < stride; ++i) REQUIRE(capped[t * stride + i] == 5.0f);

  for (const std::size_t count : {1u, 7u, 8u, 9u, 16u, 31u, 40u}) {
    auto row = normal_floats(count + 3, 3);
    row[0] = none;
    for (std::size_t i = 1; i < count; ++i) row[i] = std::min(row[i], 2.5f);
    const auto scores = row;
    kernel.exponentiate(row.data(), count, 2.5f, 0.25f);
    CHECK(row[0] == 0);
    for (std::size_t i = 1; i < count; ++i) {
      const double exact = std::exp(scores[i] - 2.5) * 0.25;
      CHECK(std::abs(row[i] - exact) <= 12 * 0x1p-24 * exact);  // a difference of up to 8 is off by up to 8 u; the exp adds 4 u
    }
    for (std::size_t i = count; i < count + 3; ++i) CHECK(row[i] == scores[i]);
  }
}

}  // namespace lazyprune_test
