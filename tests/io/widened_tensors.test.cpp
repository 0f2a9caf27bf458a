// SPDX-License-Identifier: MIT
#include <lazyprune/io/widened_tensors.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

using lazyprune::dtype;
using lazyprune::ggml_type;
using lazyprune::tensor;
using lazyprune::widened_tensors;

namespace {

std::vector<std::byte> random_blocks(std::size_t bytes) {
  std::mt19937 random(7);
  std::vector<std::byte> data(bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random() % 120);  // no infinite scales
  return data;
}

std::vector<float> floats(const tensor& t) {
  std::vector<float> values(t.rows * t.columns);
  lazyprune::widen(t, 0, values.size(), values.data());
  return values;
}

}  // namespace

TEST_CASE("rows of a llama in GGUF files: the halves of a head are interleaved") {
  // transformers' rows 0 1 2 | 3 4 5 of a head of six lie as 0 3 1 4 2 5.
  const std::size_t order[] = {0, 2, 4, 1, 3, 5};
  for (std::size_t row = 0; row < 12; ++row) CHECK(lazyprune::detail::interleaved_row(row, 6) == row / 6 * 6 + order[row % 6]);
}

TEST_CASE("quantized rows as float and bf16, on any number of threads, in either order; rows longer than a part of one") {
  const ggml_type& type = *lazyprune::ggml_type_of("Q4_K");
  constexpr std::size_t rows = 130, columns = 4096 + 512;
  const auto data = random_blocks(rows * columns / 256 * 144);
  std::vector<float> expected(rows * columns);
  type.dequantize(data.data(), rows * columns / 256, expected.data());
  widened_tensors made;
  const tensor wide = made.widen(type, data.data(), rows, columns, dtype::f32);
  const tensor narrow = made.widen(type, data.data(), rows, columns, dtype::bf16);
  const tensor ordered = made.widen(type, data.data(), rows, columns, dtype::f32, 10);
  CHECK(floats(wide) == expected);
  CHECK(narrow.type == dtype::bf16);
  const auto rounded = floats(narrow), in_order = floats(ordered);
  bool all_rounded = true, all_ordered = true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    all_rounded = all_rounded && rounded[i] == lazyprune::float_of_bf16(lazyprune::bf16_of_float(expected[i]));
    all_ordered = all_ordered && in_order[i] == expected[lazyprune::detail::interleaved_row(i / columns, 10) * columns + i % columns];
  }
  CHECK(all_rounded);
  CHECK(all_ordered);
}

TEST_CASE("plain rows are put in order as they are, and memory is given back once") {
  const std::uint16_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const tensor t{dtype::f16, 4, 2, reinterpret_cast<const std::byte*>(numbers)};
  widened_tensors made;
  const tensor ordered = made.reorder(t, 4);
  std::uint16_t got[8];
  std::memcpy(got, ordered.data, sizeof got);
  const std::uint16_t expected[] = {0, 1, 4, 5, 2, 3, 6, 7};
  CHECK(std::equal(got, got + 8, expected));
  CHECK(made.release(ordered));
  CHECK_FALSE(made.release(ordered));
  CHECK_FALSE(made.release(t));
}

TEST_CASE("memory that was given back is used again; what was not stays") {
  const std::uint16_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const tensor t{dtype::f16, 4, 2, reinterpret_cast<const std::byte*>(numbers)}, part{dtype::f16, 2, 2, t.data};
  const auto holds = [](const tensor& made, const std::vector<std::uint16_t>& expected) {
    return std::memcmp(made.data, expected.data(), expected.size() * 2) == 0;
  };
  const std::vector<std::uint16_t> in_order{0, 1, 4, 5, 2, 3, 6, 7};
  widened_tensors made;
  const tensor first = made.reorder(t, 4), second = made.reorder(t, 4), third = made.reorder(t, 4);
  for (const tensor& each : {first, second}) CHECK(made.release(each));
  const tensor again = made.reorder(t, 4), smaller = made.reorder(part, 2), more = made.reorder(t, 4);
  CHECK((again.data == first.data || again.data == second.data));
  for (const tensor& each : {again, third, more}) CHECK(holds(each, in_order));
  CHECK(holds(smaller, {0, 1, 2, 3}));
  for (const tensor& each : {again, third, more, smaller}) CHECK(made.release(each));
  CHECK_FALSE(made.release(again));
}
