// SPDX-License-Identifier: MIT
// Tests single kernels in cases that the backend's contract (cuda.test.cpp) does not have: rounding, and rows with numbers between them.
#include <lazyprune/backend/cuda/elementwise.cuh>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

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

/// Rows on the device with numbers between them. If `aligned` is true, each row begins at a multiple of 16 bytes.
template <class T>
class placed {
 public:
  placed(std::size_t rows, std::size_t columns, bool aligned, const std::vector<T>& numbers)
      : rows_(rows), columns_(columns), stride_(columns + (aligned ? 8 : 5)), first_(aligned ? 8 : 1), memory_(laid_out(numbers)) {}

  T* row(std::size_t r) { return memory_.data() + first_ + r * stride_; }
  device::row_span<T> span() { return {memory_.data() + first_, stride_}; }
  device::row_span<const T> view() { return {memory_.data() + first_, stride_}; }

  /// Returns the rows' numbers, and checks that the numbers between them have not changed.
  std::vector<T> rows() const {
    const auto all = memory_.numbers();
    std::vector<T> found;
    std::size_t untouched = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i >= first_ && (i - first_) / stride_ < rows_ && (i - first_) % stride_ < columns_)
        found.push_back(all[i]);
      else
        untouched += all[i] == between;
    CHECK(untouched == all.size() - rows_ * columns_);
    return found;
  }

 private:
  static constexpr T between = T(77);

  std::vector<T> laid_out(const std::vector<T>& numbers) const {
    std::vector<T> all(first_ + rows_ * stride_, between);
    for (std::size_t i = 0; i < numbers.size(); ++i) all[first_ + i / columns_ * stride_ + i % columns_] = numbers[i];
    return all;
  }

  std::size_t rows_, columns_, stride_, first_;
  on_device<T> memory_;
};

}  // namespace

TEST_CASE("rows give the same bits at any alignment, in any number of pieces") {
  constexpr std::size_t rows = 3, half = 8;
  for (const std::size_t columns : {16u, 48u, 2064u, 4112u, 5216u}) {
    CAPTURE(columns);
    const auto x = normal_floats(rows * columns, 1), y = normal_floats(rows * columns, 2), both = normal_floats(rows * 2 * columns, 3);
    const std::vector<float> w = normal_floats(columns, 4), turns = normal_floats(rows * 2 * half, 5);
    on_device<float> weight(w), table(turns);
    on_device<std::uint32_t> ids(std::vector<std::uint32_t>{2, 0, 1});
    const unsigned threads = device::threads_for(columns);
    const auto results = [&](bool aligned, unsigned pieces) {
      const dim3 grid{rows, pieces};
      std::vector<std::vector<float>> all;
      placed<float> from(rows, columns, aligned, x), wide(rows, 2 * columns, aligned, both);
      const auto into = [&](auto run) {
        placed<float> to(rows, columns, aligned, y);
        run(to);
        all.push_back(to.rows());
      };
      into([&](auto& to) {
        launch(device::norm_rows<float, float>, {rows}, {threads}, 32, device::stream(), from.view(), weight.data(), 1e-5f, columns,
               to.span());
      });
      into([&](auto& to) { launch(device::add_rows<float>, grid, {threads}, 0, device::stream(), from.view(), columns, to.span()); });
      into([&](auto& to) {
        launch(device::gate_rows<float, float>, grid, {threads}, 0, device::stream(), wide.view(), columns, gate_activation::silu,
               to.span());
      });
      into([&](auto& to) {
        launch(device::embed_rows<float>, grid, {threads}, 0, device::stream(), from.view(), ids.data(), 1.5f, columns, to.span());
      });
      into([&](auto& to) {
        launch(device::rotate_rows<float>, grid, {threads}, 0, device::stream(), to.span(), static_cast<unsigned>(columns / (2 * half)),
               device::rotation{ids.data(), table.data(), half});
      });
      into([&](auto& to) {
        std::vector<device::row_move> list;
        for (std::size_t r = 0; r < rows; ++r) list.push_back({from.row(r), to.row(rows - 1 - r)});
        on_device<device::row_move> moves(list);
        launch(device::move_rows<float, float>, grid, {threads}, 0, device::stream(), moves.data(), columns);
        device::synchronize();
      });
      placed<std::uint16_t> halves(rows, columns, aligned, {});
      std::vector<device::row_move> list;
      for (std::size_t r = 0; r < rows; ++r) list.push_back({from.row(r), halves.row(r)});
      on_device<device::row_move> moves(list);
      launch(device::move_rows<float, std::uint16_t>, grid, {threads}, 0, device::stream(), moves.data(), columns);
      const auto rounded = halves.rows();
      all.emplace_back(rounded.begin(), rounded.end());
      into([&](auto& to) {
        launch(device::embed_rows<std::uint16_t>, grid, {threads}, 0, device::stream(), halves.view(), ids.data(), 1.5f, columns,
               to.span());
      });
      return all;
    };
    const auto expected = results(false, 1);
    CHECK(results(true, 1) == expected);
    CHECK(results(true, device::pieces_for(columns)) == expected);
    CHECK(results(false, 7) == expected);

    double squares = 0;
    for (std::size_t i = 0; i < columns; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double root = std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (std::size_t i = 0; i < columns; ++i) {
      CHECK(expected[0][i] == doctest::Approx(static_cast<double>(x[i]) / root * static_cast<double>(w[i])).epsilon(1e-5));
      CHECK(expected[1][i] == x[i] + y[i]);
      CHECK(expected[3][i] == x[2 * columns + i] * 1.5f);
      CHECK(expected[5][i] == x[2 * columns + i]);
      CHECK(expected[6][i] == bf16_of_float(x[i]));
      CHECK(expected[7][i] == float_of_bf16(bf16_of_float(x[2 * columns + i])) * 1.5f);
    }
  }
}

TEST_CASE("norm_rows, gate_rows and convert_rows write in bf16 what they write in float, rounded, and nothing outside their rows") {
  constexpr std::size_t rows = 3;
  for (const std::size_t columns : {7u, 16u, 20u, 2056u, 4112u})
    for (const bool aligned : {false, true}) {
      CAPTURE(columns);
      const auto x = normal_floats(rows * 2 * columns, 1);
      on_device<float> weight(normal_floats(columns, 2));
      placed<float> from(rows, columns, aligned, std::vector<float>(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(rows * columns)));
      placed<float> wide(rows, 2 * columns, aligned, x);
      const unsigned threads = device::threads_for(columns);
      const dim3 grid{rows, device::pieces_for(columns)};
      const auto of_type = [&]<class T>(T) {
        std::vector<std::vector<T>> all;
        const auto into = [&](auto run) {
          placed<T> to(rows, columns, aligned, {});
          run(to.span());
          device::synchronize();
          all.push_back(to.rows());
        };
        into([&](auto to) {
          launch(device::norm_rows<float, T>, {rows}, {threads}, 32, device::stream(), from.view(), weight.data(), 1e-5f, columns, to);
        });
        into([&](auto to) {
          launch(device::gate_rows<float, T>, grid, {threads}, 0, device::stream(), wide.view(), columns, gate_activation::gelu_tanh, to);
        });
        into([&](auto to) { launch(device::convert_rows<float, T>, grid, {threads}, 0, device::stream(), from.view(), columns, to); });
        return all;
      };
      const auto floats = of_type(float{});
      const auto halves = of_type(std::uint16_t{});
      for (std::size_t k = 0; k < floats.size(); ++k)
        for (std::size_t i = 0; i < rows * columns; ++i) REQUIRE(halves[k][i] == bf16_of_float(floats[k][i]));
      for (std::size_t i = 0; i < rows * columns; ++i) REQUIRE(floats[2][i] == x[i]);

      placed<std::uint16_t> rounded(rows, columns, aligned, halves[2]);
      placed<float> back(rows, columns, aligned, {});
      launch(device::convert_rows<std::uint16_t, float>, grid, {threads}, 0, device::stream(), rounded.view(), columns, back.span());
      const auto numbers = back.rows();
      for (std::size_t i = 0; i < rows * columns; ++i) REQUIRE(numbers[i] == float_of_bf16(halves[2][i]));
    }
}

TEST_CASE("move_rows converts between types") {
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

TEST_CASE("every thread gets the block's sum and maximum") {
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

TEST_CASE("a row gets as many threads as it needs, up to 256") {
  CHECK(device::threads_for(1) == 32);
  CHECK(device::threads_for(128) == 32);
  CHECK(device::threads_for(129) == 64);
  CHECK(device::threads_for(4096) == 256);
  CHECK(device::pieces_for(1) == 1);
  CHECK(device::pieces_for(2048) == 1);
  CHECK(device::pieces_for(4096) == 2);
  CHECK(device::pieces_for(4100) == 3);
}
