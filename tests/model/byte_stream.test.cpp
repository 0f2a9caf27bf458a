// SPDX-License-Identifier: MIT
#include <lazyprune/model/byte_stream.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fault.hpp>

#include "saved_bytes.hpp"

using namespace lazyprune;
using lazyprune_test::error_of, lazyprune_test::reader_of, lazyprune_test::writer_to;

TEST_CASE("numbers, texts and rows come back as they were written") {
  std::string bytes;
  byte_writer to = writer_to(bytes);
  to.number<std::uint8_t>(7);
  to.number(-1.5);
  to.text("a text");
  const std::vector<float> plain{1.0f, 2.0f / 3, -0.0f}, brief{1.0f, -3.5f, 0x1p100f};
  const std::vector<double> wide{1.0 / 3, 2};
  to.row_numbers(std::span(plain));
  const std::size_t before = bytes.size();
  to.row_numbers(std::span(brief));
  CHECK(bytes.size() == before + 1 + 3 * 2);  // bf16 numbers take 2 bytes
  to.row_numbers(std::span(wide));
  to.checksum();

  byte_reader from = reader_of(bytes);
  CHECK(from.number<std::uint8_t>("one") == 7);
  CHECK(from.number<double>("two") == -1.5);
  CHECK(from.text(10, "three") == "a text");
  std::vector<float> floats(3);
  from.row_numbers(std::span(floats), "four");
  CHECK(floats == plain);
  from.row_numbers(std::span(floats), "five");
  CHECK(floats == brief);
  std::vector<double> doubles(2);
  from.row_numbers(std::span(doubles), "six");
  CHECK(doubles == wide);
  from.checksum();
}

TEST_CASE("the checksum finds every changed bit, and does not depend on the pieces in which bytes are written or read") {
  std::string whole, pieces;
  std::vector<std::uint8_t> numbers(37);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint8_t>(i * 7);
  byte_writer to = writer_to(whole), in_pieces = writer_to(pieces);
  to.numbers(std::span<const std::uint8_t>(numbers));
  to.checksum();
  for (const std::size_t n : {1u, 9u, 3u, 20u, 4u}) {
    in_pieces.numbers(std::span<const std::uint8_t>(numbers).first(n));
    std::rotate(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(n), numbers.end());
  }
  in_pieces.checksum();
  CHECK(whole == pieces);
  const auto read = [&](std::string bytes) {
    byte_reader from = reader_of(bytes);
    std::vector<std::uint8_t> got;
    from.append(got, numbers.size(), "numbers");
    from.checksum();
  };
  read(whole);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    CHECK(error_of([&] { read(changed); }).where == "bytes: checksum");
  }
}

TEST_CASE("bytes that end too early and texts that are too long are errors that name what is missing") {
  std::string bytes;
  byte_writer to = writer_to(bytes);
  to.text("a text");
  CHECK(error_of([&] { reader_of(bytes).text(5, "name"); }).where == "bytes: name");
  CHECK(error_of([&] { reader_of(bytes.substr(0, 10)).text(6, "name"); }).where == "bytes: name");
  CHECK(error_of([&] {
          std::vector<float> many;
          reader_of(bytes).append(many, std::size_t{1} << 60, "many");
        }).where == "bytes: many");
  std::string odd(1, '\3');
  std::vector<float> one(1);
  CHECK(error_of([&] { reader_of(odd).row_numbers(std::span(one), "row"); }).where == "bytes: row");
}
