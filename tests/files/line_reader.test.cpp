// SPDX-License-Identifier: MIT
#include <lazyprune/files/line_reader.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::line_reader;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  line_reader reader(path);
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(*line);
  CHECK(reader.number() == lines.size() + 1);
  return lines;
}

}  // namespace

TEST_CASE("lines come without their line breaks, and the last line may lack a line break") {
  const temporary_folder folder;
  using list = std::vector<std::string>;
  CHECK(lines_of(folder.write("a", "one\n\nthree\r\n")) == list{"one", "", "three\r"});
  CHECK(lines_of(folder.write("b", "one\ntwo")) == list{"one", "two"});
  CHECK(lines_of(folder.write("c", "")) == list{});
  CHECK(lines_of(folder.write("d", "\n")) == list{""});
  CHECK(lines_of(folder.write("e", std::string("a\0b\n", 4))) == list{std::string("a\0b", 3)});
}

TEST_CASE("a line is complete if it has a line break") {
  const temporary_folder folder;
  line_reader reader(folder.write("a", "one\n" + std::string(200000, 'x') + "\ntwo"), 100);
  CHECK(reader.next() == "one");
  CHECK(reader.complete());
  CHECK_THROWS_AS(reader.next(), lazyprune::error);
  CHECK(reader.complete());
  CHECK(reader.next() == "two");
  CHECK_FALSE(reader.complete());
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.complete());
}

TEST_CASE("lines with lengths near the size of the buffer are read whole") {
  const temporary_folder folder;
  std::string all;
  std::vector<std::string> lines;
  for (const std::size_t size : {65'534u, 65'535u, 65'536u, 65'537u, 1u, 131'071u, 131'072u, 200'000u, 0u}) {
    lines.emplace_back(size, static_cast<char>('a' + lines.size()));
    all += lines.back() + "\n";
  }
  CHECK(lines_of(folder.write("long", all)) == lines);
}

TEST_CASE("a line that is too long is reported once, and the next one follows") {
  const temporary_folder folder;
  line_reader reader(folder.write("f", "four\n" + std::string(100'000, 'x') + "\nfive!\nsix"), 4);
  CHECK(reader.next() == "four");
  for (const int number : {2, 3})
    CHECK_THROWS_WITH_AS(reader.next(),
                         (reader.name() + ": line " + std::to_string(number) + ": expected at most 4 bytes, found more").c_str(),
                         lazyprune::error);
  CHECK(reader.next() == "six");
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.next());
}

TEST_CASE("files that cannot be read are refused") {
  const temporary_folder folder;
  CHECK_THROWS_AS(line_reader(folder / "missing"), lazyprune::error);
  CHECK_THROWS_WITH_AS(line_reader(folder / ""), doctest::Contains(": expected a file to read, found a directory"), lazyprune::error);
}
