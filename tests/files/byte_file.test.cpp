// SPDX-License-Identifier: MIT
#include <lazyprune/files/byte_file.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <fault.hpp>
#include "support.hpp"

using namespace lazyprune;
using lazyprune_test::error_of;

TEST_CASE("a file gives back what was written, is named in errors, and stays as it was if a writer throws") {
  const lazyprune_test::temporary_folder folder;
  const std::filesystem::path path = folder / "saved";
  std::vector<double> numbers(100000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const auto write = [&](byte_writer& to) {
    to.numbers(std::span<const double>(numbers));
    to.checksum();
  };
  const auto read = [&](byte_reader& from) {
    std::vector<double> got;
    from.append(got, numbers.size(), "numbers");
    from.checksum();
    CHECK(got == numbers);
  };
  write_byte_file(path, write);
  read_byte_file(path, read);
  CHECK_THROWS_AS(write_byte_file(path,
                                  [](byte_writer& to) {
                                    to.number<std::uint8_t>(1);
                                    throw std::runtime_error("planted fault");
                                  }),
                  std::runtime_error);
  read_byte_file(path, read);
  std::filesystem::resize_file(path, 100);
  CHECK(error_of([&] { read_byte_file(path, read); }).where == path.string() + ": numbers");
  CHECK(error_of([&] { read_byte_file(folder / "none", read); }).where == (folder / "none").string());
  CHECK(error_of([&] { write_byte_file(folder / "none" / "saved", write); }).where == (folder / "none" / "saved").string());
}
