// SPDX-License-Identifier: MIT
#include <lazyprune/files/ggml_rows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <backend/samples.hpp>

using lazyprune::dtype;
using lazyprune::ggml_rows;
using lazyprune::ggml_type;
using lazyprune::tensor;

namespace {

std::vector<std::byte> random_blocks(std::size_t bytes) {
  std::mt19937 random(7);
  std::vector<std::byte> data(bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random() % 120);  // bytes below 120 keep each f16 scale finite
  return data;
}

std::vector<float> floats(const tensor& t) {
  std::vector<float> values(t.rows * t.columns);
  lazyprune::widen(t, values.data());
  return values;
}

}  // namespace

TEST_CASE("rows of a llama in GGUF files: the two halves of a head are interleaved") {
  // For a head width of 6, transformers has the rows 0 1 2 | 3 4 5. A GGUF file stores them as 0 3 1 4 2 5.
  // `order` has the place of each row in the file.
  const std::size_t order[] = {0, 2, 4, 1, 3, 5};
  for (std::size_t row = 0; row < 12; ++row) CHECK(lazyprune::detail::interleaved_row(row, 6) == row / 6 * 6 + order[row % 6]);
}

TEST_CASE("quantized rows become float or bf16, interleaved or not, even if a row is longer than the buffer of 1,024 values") {
  const ggml_type& type = *lazyprune::ggml_type_of("Q4_K");
  constexpr std::size_t rows = 130, columns = 4096 + 512;
  const auto data = random_blocks(rows * columns / 256 * 144);
  std::vector<float> expected(rows * columns);
  type.dequantize(data.data(), rows * columns / 256, expected.data());
  const ggml_rows plain(type), in_heads(type, 10);
  const auto wide = floats({dtype::f32, rows, columns, data.data(), &plain});
  const auto narrow = floats({dtype::bf16, rows, columns, data.data(), &plain});
  const auto ordered = floats({dtype::f32, rows, columns, data.data(), &in_heads});
  const auto part = floats({dtype::f32, 20, columns, data.data(), &in_heads, 30});
  CHECK(wide == expected);
  bool all_rounded = true, all_ordered = true;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    all_rounded = all_rounded && narrow[i] == lazyprune::float_of_bf16(lazyprune::bf16_of_float(expected[i]));
    all_ordered = all_ordered && ordered[i] == expected[lazyprune::detail::interleaved_row(i / columns, 10) * columns + i % columns];
  }
  CHECK(all_rounded);
  CHECK(all_ordered);
  CHECK(std::equal(part.begin(), part.end(), ordered.begin() + 30 * columns));
}

TEST_CASE("rows that their source copies are read like those in place; interleaved rows are not copied") {
  constexpr std::size_t rows = 20, columns = 512;
  for (const char* const name : {"Q8_0", "Q4_K", "BF16"}) {
    CAPTURE(name);
    const ggml_type& type = *lazyprune::ggml_type_of(name);
    const auto data = random_blocks(rows * columns / type.values * type.bytes);
    const std::vector<std::byte> nothing(data.size());
    const lazyprune_test::bytes_elsewhere source(nothing.data(), data.data(), false);
    const ggml_rows plain(type, 0, true), in_heads(type, 10);
    tensor right{dtype::bf16, 12, columns, data.data(), &plain, 5}, t{dtype::bf16, 12, columns, nothing.data(), &plain, 5};
    t.source = &source;
    std::vector<std::byte> room(3 * plain.stored_row_bytes(t));
    CHECK(room.size() == 3 * data.size() / rows);
    const auto copied = t.copied_rows(7, 3, room.data());
    REQUIRE(copied);
    right.first_row += 7;
    right.rows = 3;
    CHECK(floats(*copied) == floats(right));
    if (type.format) {
      lazyprune::quantized_block one{}, other{};
      plain.read_blocks(*copied, 2, 1, 1, &one);
      plain.read_blocks(right, right.first_row + 2, 1, 1, &other);
      CHECK(std::memcmp(one.codes, other.codes, sizeof one.codes) == 0);
      CHECK(one.scale == other.scale);
    }
    t.reader = &in_heads;
    CHECK_FALSE(t.copied_rows(0, 1, room.data()));
  }
}

TEST_CASE("plain rows are reordered and copied") {
  const std::uint16_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7}, expected[] = {0, 1, 4, 5, 2, 3, 6, 7};
  const ggml_rows in_heads(*lazyprune::ggml_type_of("F16"), 4);
  const tensor t{dtype::f16, 4, 2, reinterpret_cast<const std::byte*>(numbers), &in_heads};
  for (std::size_t row = 0; row < 4; ++row) {
    std::uint16_t got[2];
    CHECK(t.row(row, reinterpret_cast<std::byte*>(got)) == reinterpret_cast<std::byte*>(got));
    CHECK(std::equal(got, got + 2, expected + 2 * row));
  }
}
