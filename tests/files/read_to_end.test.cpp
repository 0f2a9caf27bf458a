// SPDX-License-Identifier: MIT
#include <lazyprune/files/read_to_end.hpp>

#include <doctest/doctest.h>

#include <string>
#include <thread>

#include <sys/stat.h>

#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::read_to_end;

TEST_CASE("a file of any size is read") {
  const temporary_folder folder;
  for (const std::size_t size : {0u, 1u, 65536u, 200'000u}) {
    std::string text(size, 'a');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 65536);
    CHECK(read_to_end(folder.write("some", text), 200'000) == text);
  }
  CHECK(read_to_end(folder.write("some", "a\n")) == "a\n");
}

TEST_CASE("a pipe is read to its end, after a writer has opened it") {
  const temporary_folder folder;
  const std::filesystem::path path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const std::string text(300'000, 'x');  // more than a pipe holds
  std::jthread writer([&] { folder.write("pipe", text); });
  CHECK(read_to_end(path) == text);
}

TEST_CASE("files that cannot be read are refused by name") {
  const temporary_folder folder;
  const std::string path = folder.write("some", "12345").string();
  const auto said = [&](const std::filesystem::path& file, std::size_t limit = 100) { return error_of([&] { read_to_end(file, limit); }); };
  CHECK(said(folder / "none") == at((folder / "none").string()));
  CHECK(said(folder.path()) == at(folder.path().string()));
  CHECK(said(path, 4) == at(path));
  CHECK(said(path, 5) == "no error");
  CHECK(said("/dev/zero") == at("/dev/zero", {"100"}));

  const auto write_only = lazyprune::open_file(path, O_WRONLY, path, "a file");
  CHECK(error_of([&] { read_to_end(write_only.get(), "it"); }) == at("it"));
}
