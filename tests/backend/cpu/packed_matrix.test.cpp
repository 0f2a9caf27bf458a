// SPDX-License-Identifier: MIT
// Every number has one place in the tiles, and all other places hold zero. tensor_backend.test.cpp tests the products.
#include <lazyprune/backend/cpu/packed_matrix.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

#include <memory>
#include <optional>

using namespace lazyprune;
using namespace lazyprune_test;

namespace {

/// Returns the weight of input `input` in lane `lane` of a tile, by the layout in kernels/product_kernel.hpp.
float number_at(const packed_matrix& w, std::size_t tile, std::size_t lane, std::size_t input) {
  const bool wide = w.type() == dtype::f32;
  const std::byte* at = w.tile(tile) + input / (wide ? 1 : 2) * 128 + lane * 4 + (wide ? 0 : input % 2 * 2);
  float number;
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  if (!wide) return float_of_bf16(bits);
  std::memcpy(&number, at, 4);
  return number;
}

float as_stored(float number, dtype type) { return type == dtype::f32 ? number : float_of_bf16(bf16_of_float(number)); }

}  // namespace

TEST_CASE("tiles have 32 outputs, padded with zeros") {
  for (const dtype as : {dtype::f32, dtype::bf16})
    for (const std::size_t outputs : {1u, 15u, 16u, 17u, 32u, 33u, 100u})
      for (const std::size_t inputs : {1u, 2u, 15u, 16u, 31u, 32u, 33u, 70u}) {
        CAPTURE(outputs);
        CAPTURE(inputs);
        const auto numbers = normal_floats(outputs * inputs, 1);
        const std::size_t cut = outputs / 3;
        const auto rows = [&](std::size_t first, std::size_t end) {
          return std::vector<float>(numbers.begin() + static_cast<std::ptrdiff_t>(first * inputs),
                                    numbers.begin() + static_cast<std::ptrdiff_t>(end * inputs));
        };
        const stored top(rows(0, cut), cut, inputs, dtype::f32), bottom(rows(cut, outputs), outputs - cut, inputs, dtype::bf16);
        const tensor parts[] = {top, bottom};
        const packed_matrix w(parts, as, 2);
        REQUIRE(w.outputs() == outputs);
        REQUIRE(w.inputs() == inputs);
        REQUIRE(w.tiles() == (outputs + 31) / 32);
        REQUIRE(w.depth() == (as == dtype::f32 ? inputs : (inputs + 31) / 32 * 32));
        REQUIRE(w.bytes() == w.tiles() * 32 * w.depth() * size_of(as));
        bool right = true;
        std::vector<float> row(inputs);
        for (std::size_t n = 0; n < w.tiles() * 32; ++n) {
          if (n < outputs) w.read(n, row.data());
          for (std::size_t i = 0; i < w.depth(); ++i) {
            const bool there = n < outputs && i < inputs;
            const float expected = there ? as_stored(as_stored(numbers[n * inputs + i], n < cut ? dtype::f32 : dtype::bf16), as) : 0.0f;
            right = right && number_at(w, n / 32, n % 32, i) == expected && (!there || row[i] == expected);
          }
        }
        CHECK(right);
        CHECK(w.tile(1, 32) == w.tile(1) + 32 * 32 * size_of(as));
      }
}

TEST_CASE("a tile of a gated weight has 16 outputs of the gate, and then the same outputs of the up projection") {
  for (const dtype as : {dtype::f32, dtype::bf16})
    for (const std::size_t ffn : {1u, 16u, 17u, 40u}) {
      const std::size_t inputs = 33;
      const auto g = normal_floats(ffn * inputs, 1), u = normal_floats(ffn * inputs, 2);
      const packed_matrix w(stored(g, ffn, inputs, dtype::f32), stored(u, ffn, inputs, dtype::f32), as, 2);
      REQUIRE(w.outputs() == 2 * ffn);
      REQUIRE(w.gated());
      REQUIRE(w.tiles() == (ffn + 15) / 16);
      std::vector<float> row(inputs);
      bool right = true;
      for (std::size_t n = 0; n < (ffn + 15) / 16 * 16; ++n)
        for (const bool up : {false, true}) {
          if (n < ffn) w.read(up ? ffn + n : n, row.data());
          for (std::size_t i = 0; i < inputs; ++i) {
            const float expected = n < ffn ? as_stored((up ? u : g)[n * inputs + i], as) : 0.0f;
            right = right && number_at(w, n / 16, n % 16 + (up ? 16 : 0), i) == expected && (n >= ffn || row[i] == expected);
          }
        }
      CHECK(right);
    }
}

TEST_CASE("long rows and large matrices get the same bits with or without a reader, for any number of threads") {
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype as : {dtype::f32, dtype::bf16})
      for (const std::size_t inputs : {1041u, 2079u, 1024u}) {
        CAPTURE(inputs);
        const std::size_t rows = 1100;
        const auto numbers = normal_floats(rows * inputs, 1);
        std::vector<float> from_the_end;
        for (std::size_t row = rows; row-- > 0;)
          from_the_end.insert(from_the_end.end(), &numbers[row * inputs], &numbers[row * inputs] + inputs);
        const stored in_order(numbers, rows, inputs, type), turned(from_the_end, rows, inputs, type);
        const rows_from_the_end reader(rows);
        tensor read = turned;
        read.reader = &reader;
        const packed_matrix expected(only(in_order), as, 1);
        bool right = true;
        std::vector<float> row(inputs);
        for (std::size_t n = 0; n < rows; ++n) {
          expected.read(n, row.data());
          for (std::size_t i = 0; i < inputs; ++i) right = right && row[i] == as_stored(as_stored(numbers[n * inputs + i], type), as);
        }
        CHECK(right);
        for (const int threads : {1, 2, 5}) {
          const packed_matrix w(std::span(&read, 1), as, threads);
          CHECK(std::memcmp(w.tile(0), expected.tile(0), expected.bytes()) == 0);
        }
      }
}

TEST_CASE("rows that their source copies give the same matrix as rows in place, even if the source refuses some") {
  struct plain_rows final : row_reader {  // reads rows that are as they are, and says so
    void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
      std::memcpy(to, matrix.data + row * matrix.row_bytes() + first * size_of(matrix.type), count * size_of(matrix.type));
    }
    std::size_t stored_row_bytes(const tensor& matrix) const override { return matrix.row_bytes(); }
  } const plain;
  const std::size_t rows = 1000, inputs = 1100;
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const dtype as : {dtype::f32, dtype::bf16}) {
      const stored numbers(normal_floats(rows * inputs, 1), rows, inputs, type),
          zeros(std::vector<float>(rows * inputs), rows, inputs, type);
      const tensor right = numbers, wrong = zeros;
      // Parts of 7 rows begin in the middle of tiles.
      std::vector<tensor> parts{right};
      for (std::size_t first = 0; first < 700; first += 7) parts.push_back({type, 7, inputs, right.data + first * right.row_bytes()});
      const packed_matrix stacked(parts, as, 1), gated(right, right, as, 1);
      for (const bool refuses : {false, true})
        for (const row_reader* const reader : {static_cast<const row_reader*>(nullptr), static_cast<const row_reader*>(&plain)})
          for (const int threads : {1, 3}) {
            const tensor& in_place = refuses ? right : wrong;
            const bytes_elsewhere source(in_place.data, right.data, refuses);
            std::vector<tensor> copied = parts;
            for (tensor& part : copied) {
              part.reader = reader;
              part.first_row = reader ? static_cast<std::size_t>(part.data - right.data) / right.row_bytes() : 0;
              part.data = reader ? in_place.data : in_place.data + (part.data - right.data);
              part.source = &source;
            }
            const packed_matrix a(copied, as, threads), b(copied[0], copied[0], as, threads);
            CHECK(std::memcmp(a.tile(0), stacked.tile(0), stacked.bytes()) == 0);
            CHECK(std::memcmp(b.tile(0), gated.tile(0), gated.bytes()) == 0);
            CHECK(source.calls() >= 2 * rows / 16);
          }
    }
}

TEST_CASE("a matrix holds its tensors only while it is filled, and a copy shares the memory of the matrix") {
  const auto numbers = normal_floats(100 * 33, 1);
  const stored part(numbers, 100, 33, dtype::f32);
  tensor t = part;
  const auto held = std::make_shared<int>();
  t.held = held;
  for (const int threads : {1, 3}) {
    std::optional<packed_matrix> w;
    detail::with_tasks(threads, [&] {
      for (int i = 0; i < 20; ++i) w.emplace(std::span(&t, 1), dtype::bf16, threads);  // most are replaced while they are incomplete
    });
    CHECK(held.use_count() == 2);
    const packed_matrix copy = *w;
    CHECK(copy.tile(0) == w->tile(0));
    std::vector<float> row(33);
    copy.read(99, row.data());
    CHECK(row[32] == as_stored(numbers.back(), dtype::bf16));
  }
}

TEST_CASE("f16 tensors are packed exactly as f32, and rounded as bf16") {
  const std::uint16_t bits[] = {0x3c00, 0xc000, 0x3800, 0x7bff, 0x0001, 0x0000};
  const float expected[] = {1, -2, 0.5f, 65504, 0x1p-24f, 0};
  const tensor f16{dtype::f16, 2, 3, reinterpret_cast<const std::byte*>(bits)};
  for (const dtype as : {dtype::f32, dtype::bf16}) {
    const packed_matrix w(std::span(&f16, 1), as, 1);
    float row[3];
    for (std::size_t n = 0; n < 2; ++n) {
      w.read(n, row);
      for (std::size_t i = 0; i < 3; ++i) CHECK(row[i] == as_stored(expected[n * 3 + i], as));
    }
  }
}
