// SPDX-License-Identifier: MIT
#include <lazyprune/backend/tensor.hpp>

#include <doctest/doctest.h>

#include <backend/samples.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace lazyprune;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// Returns the value of an IEEE number with this many exponent and fraction bits.
double meaning(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(static_cast<double>(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * inf : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

}  // namespace

TEST_CASE("all f16 and all bf16 numbers are read with their IEEE value") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    wrong += !same(float_of_f16(static_cast<std::uint16_t>(bits)), meaning(bits, 5, 10));
    wrong += !same(float_of_bf16(static_cast<std::uint16_t>(bits)), meaning(bits, 8, 7));
  }
  CHECK(wrong == 0);
}

TEST_CASE("a float is rounded to the nearest f16 number, ties to even") {
  std::size_t wrong = 0;
  for (std::uint32_t low = 0; low < 0x7bff; ++low) {
    const float a = float_of_f16(static_cast<std::uint16_t>(low)), b = float_of_f16(static_cast<std::uint16_t>(low + 1));
    const float middle = (a + b) / 2;
    wrong += f16_of_float(a) != low || f16_of_float(-a) != (low | 0x8000);
    wrong += f16_of_float(std::nextafter(middle, a)) != low;
    wrong += f16_of_float(std::nextafter(middle, b)) != low + 1;
    wrong += f16_of_float(middle) != (low % 2 ? low + 1 : low);
  }
  CHECK(wrong == 0);
  CHECK(f16_of_float(65519.996f) == 0x7bff);
  CHECK(f16_of_float(65520.0f) == 0x7c00);  // rounds to infinity
  CHECK(f16_of_float(1e30f) == 0x7c00);
  CHECK(f16_of_float(-inf) == 0xfc00);
  CHECK(f16_of_float(1e-10f) == 0);
  CHECK(std::isnan(float_of_f16(f16_of_float(std::bit_cast<float>(0x7f80'0001u)))));
}

TEST_CASE("every bf16 number is the same after conversion to float and back") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_of_bf16(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = bf16_of_float(value);
    wrong += std::isnan(value) ? !std::isnan(float_of_bf16(back)) : back != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a float is rounded to the nearest bf16 number, ties to even") {
  int wrong = 0;
  for (std::uint32_t low = 0x3f80; low < 0x4080; ++low) {  // two binades
    const float a = float_of_bf16(static_cast<std::uint16_t>(low)), b = float_of_bf16(static_cast<std::uint16_t>(low + 1));
    const float middle = (a + b) / 2;
    wrong += bf16_of_float(std::nextafter(middle, a)) != low;
    wrong += bf16_of_float(std::nextafter(middle, b)) != low + 1;
    wrong += bf16_of_float(middle) != (low % 2 ? low + 1 : low);
  }
  CHECK(wrong == 0);
  CHECK(bf16_of_float(std::numeric_limits<float>::max()) == 0x7f80);  // rounds to infinity
  CHECK(bf16_of_float(-inf) == 0xff80);
  CHECK(std::isnan(float_of_bf16(bf16_of_float(std::bit_cast<float>(0x7f80'0001u)))));  // truncation would turn this NaN into infinity
}

TEST_CASE("some numbers of an unaligned tensor are widened") {
  std::vector<std::byte> bytes(1 + 4 * 4);
  const auto put = [&](std::size_t at, std::uint32_t bits, std::size_t size) { std::memcpy(bytes.data() + 1 + at, &bits, size); };
  std::vector<double> out(2);

  for (std::uint32_t i = 0; i < 4; ++i) put(i * 4, std::bit_cast<std::uint32_t>(0.5f + static_cast<float>(i)), 4);
  const tensor f32{dtype::f32, 2, 2, bytes.data() + 1};
  CHECK(f32.bytes() == 16);
  widen(f32, 1, 2, out.data());
  CHECK(out == std::vector<double>{1.5, 2.5});

  const std::uint16_t half[] = {0x3c00, 0xc000, 0x3800, 0}, brain[] = {0x3f80, 0xc000, 0x3f00, 0};  // 1, -2, 0.5, 0
  for (std::size_t i = 0; i < 4; ++i) put(i * 2, half[i], 2);
  widen(tensor{dtype::f16, 1, 4, bytes.data() + 1}, 1, 2, out.data());
  CHECK(out == std::vector<double>{-2, 0.5});
  for (std::size_t i = 0; i < 4; ++i) put(i * 2, brain[i], 2);
  widen(tensor{dtype::bf16, 1, 4, bytes.data() + 1}, 1, 2, out.data());
  CHECK(out == std::vector<double>{-2, 0.5});
}

TEST_CASE("some numbers of a row are found in place, or read by a reader") {
  struct doubled final : row_reader {
    void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
      std::vector<float> numbers(count);
      widen(tensor{matrix.type, matrix.rows, matrix.columns, matrix.data}, row * matrix.columns + first, count, numbers.data());
      for (float& number : numbers) number *= 2;
      std::memcpy(to, numbers.data(), count * 4);
    }
  } const reader;
  std::vector<float> numbers(3 * 300);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const auto* const data = reinterpret_cast<const std::byte*>(numbers.data());
  const tensor plain{dtype::f32, 3, 300, data}, read{dtype::f32, 2, 300, data, &reader, 1};
  float room[300] = {};
  auto* const to = reinterpret_cast<std::byte*>(room);
  CHECK(plain.row(2, to) == data + 2 * 1200);
  CHECK(plain.row(2, 256, 44, to) == data + 2 * 1200 + 1024);
  CHECK(room[0] == 0);
  CHECK(read.row(1, 256, 44, to) == to);
  CHECK(room[0] == 2 * 856);
  CHECK(room[43] == 2 * 899);
  CHECK(room[44] == 0);
  CHECK(read.row(0, to) == to);
  CHECK(room[299] == 2 * 599);
}

TEST_CASE("rows are copied if their source can copy them, and if they are stored one after another") {
  struct bytes_in_order final : row_reader {
    void read(const tensor& matrix, std::size_t row, std::size_t first, std::size_t count, std::byte* to) const override {
      std::memcpy(to, matrix.data + row * 12 + first, count);
    }
    std::size_t stored_row_bytes(const tensor&) const override { return 12; }
  } const in_order;
  const lazyprune_test::rows_from_the_end from_the_end(5);
  std::byte wrong[60] = {}, right[60], room[24];
  for (std::size_t i = 0; i < 60; ++i) right[i] = static_cast<std::byte>(i);
  const lazyprune_test::bytes_elsewhere source(wrong, right, false), refuses(wrong, right, true);
  tensor t{dtype::f32, 5, 3, wrong};
  CHECK_FALSE(t.copied_rows(1, 2, room));
  t.source = &source;
  const auto plain = t.copied_rows(1, 2, room);
  REQUIRE(plain);
  CHECK(plain->rows == 2);
  CHECK(plain->columns == 3);
  CHECK(plain->source == nullptr);
  CHECK(plain->row(1, nullptr) == room + 12);
  CHECK(std::memcmp(room, right + 12, 24) == 0);

  t.reader = &in_order;
  t.first_row = 2;
  t.widens = true;
  const auto read = t.copied_rows(1, 2, room);
  REQUIRE(read);
  CHECK(read->first_row == 0);
  CHECK(read->widens);
  std::byte row[3];
  CHECK(read->row(1, row) == row);
  CHECK(std::memcmp(row, right + 48, 3) == 0);

  t.reader = &from_the_end;
  CHECK_FALSE(t.copied_rows(0, 1, room));
  CHECK(source.calls() == 2);
  t.reader = nullptr;
  t.first_row = 0;
  t.source = &refuses;
  for (int call = 0; call < 6; ++call) CHECK(t.copied_rows(0, 1, room).has_value() == (call % 3 != 2));
}

TEST_CASE("types have names and sizes") {
  CHECK(name_of(dtype::f32) == "f32");
  CHECK(name_of(dtype::f16) == "f16");
  CHECK(name_of(dtype::bf16) == "bf16");
  CHECK(name_of(dtype::q8_0) == "q8_0");
  CHECK(size_of(dtype::f32) == 4);
  CHECK(size_of(dtype::f16) == 2);
  CHECK(size_of(dtype::bf16) == 2);
}
