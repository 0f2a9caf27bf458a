// SPDX-License-Identifier: MIT
#include <lazyprune/files/mapped_file.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <files/support.hpp>
#include <skip.hpp>

using namespace lazyprune_test;
using lazyprune::file_access;
using lazyprune::mapped_file;

namespace {

/// Returns how many bytes of mapped files are in this process's memory.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssFile:")) return std::stoul(line.substr(8)) * 1024;
  return 0;
}

}  // namespace

TEST_CASE("the bytes are those of the file, mapped or read") {
  const temporary_folder folder;
  std::string text(3 * 4096 + 17, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const auto path = folder.write("some", text);
  for (const file_access how : {file_access::map, file_access::read}) {
    mapped_file file(path, how);
    CHECK(file.text() == text);
    CHECK(file.bytes().size() == text.size());
    CHECK(file.name() == path.string());
    const auto* const at = file.bytes().data();
    const mapped_file moved = std::move(file);
    CHECK(moved.bytes().data() == at);
    CHECK(moved.text() == text);
  }
}

TEST_CASE("bytes of a mapped file that are in memory can be copied; nothing is copied beyond the end, or if the file is not mapped" NEEDS(
    "nowait")) {
  const temporary_folder folder;
  std::string text(3 * 4096 + 17, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const auto path = folder.write("some", text);
  const mapped_file file(path), read(path, file_access::read), moved = mapped_file(path);
  std::vector<std::byte> to(text.size());
  for (const auto& [first, count] : {std::pair(0u, 1u), {1u, 4096u}, {4095u, 8000u}, {0u, 3 * 4096u + 17u}}) {
    CHECK_FALSE(read.copy(read.bytes().subspan(first, count), to.data()));
    if (!file.copy(file.bytes().subspan(first, count), to.data())) {
      lazyprune_test::skip("a file system for temporary files ($TMPDIR) that reads without waiting (RWF_NOWAIT)");
      return;
    }
    CHECK(std::memcmp(to.data(), text.data() + first, count) == 0);
    CHECK(moved.copy(moved.bytes().subspan(first, count), to.data()));
  }
  CHECK(file.can_copy(file.bytes()));
  CHECK(file.can_copy({}));
  CHECK_FALSE(read.can_copy(read.bytes()));
  CHECK_FALSE(read.can_copy({}));
  std::filesystem::resize_file(path, 5000);
  CHECK_FALSE(file.can_copy(file.bytes().subspan(5000)));
  CHECK(file.copy(file.bytes().first(5000), to.data()));
  CHECK_FALSE(file.copy(file.bytes().first(5001), to.data()));
}

TEST_CASE("file_access::read makes a copy, which stays the same when the file changes") {
  const temporary_folder folder;
  const auto path = folder.write("some", "before");
  const mapped_file file(path, file_access::read);
  folder.write("some", "after, and longer");
  CHECK(file.text() == "before");
}

TEST_CASE("mapped_file_fault names the file that is mapped at an address") {
  const temporary_folder folder;
  const auto one = folder.write("one", "first"), two = folder.write("two\nlines", "second");
  const mapped_file read(one, file_access::read);
  CHECK(lazyprune::mapped_file_fault(read.bytes().data()) == nullptr);
  const std::byte* at = nullptr;
  {
    const mapped_file first(one);
    mapped_file second(two);
    at = first.bytes().data();
    const mapped_file moved = std::move(second);
    CHECK(lazyprune::mapped_file_fault(moved.bytes().data() + 6) == nullptr);
    const char* const said = lazyprune::mapped_file_fault(moved.bytes().data() + 5);
    REQUIRE(said != nullptr);
    CHECK(std::string_view(said).starts_with((folder / "two\\x0alines: mmap: expected ").string()));
    delete[] said;  // a handler would end the process
  }
  CHECK(lazyprune::mapped_file_fault(at) == nullptr);
  std::vector<mapped_file> many;  // more than have a slot
  for (int i = 0; i < 300; ++i) many.emplace_back(one);
  CHECK(many.back().text() == "first");
}

TEST_CASE("prefetch and release change no bytes, and released pages leave memory") {
  const temporary_folder folder;
  std::string text(8 << 20, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  const auto path = folder.write("large", text);
  for (const file_access how : {file_access::map, file_access::read}) {
    const mapped_file file(path, how);
    file.prefetch(file.bytes().subspan(5000, 100'000));
    CHECK(file.text() == text);
    const std::size_t before = resident_file_bytes();
    file.release(file.bytes().subspan(5000));
    if (how == file_access::map) CHECK(resident_file_bytes() + (7 << 20) < before);  // more than 7 of the 8 MiB
    CHECK(file.text() == text);
    file.prefetch({});
    file.release({});
  }
}

TEST_CASE("an empty file is empty") {
  const temporary_folder folder;
  const auto path = folder.write("empty", "");
  for (const file_access how : {file_access::map, file_access::read}) CHECK(mapped_file(path, how).text().empty());
}

TEST_CASE("the error for a file that cannot be read names the file") {
  const temporary_folder folder;
  const auto path = folder.write("some", "12345");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const file_access how : {file_access::map, file_access::read}) {
    const auto said = [&](const std::filesystem::path& file, std::size_t limit = 100) {
      return error_of([&] { const mapped_file opened(file, how, limit); });
    };
    CHECK(said(folder / "none") == at((folder / "none").string()));
    CHECK(said(path / "below") == at((path / "below").string()));
    CHECK(said(folder.path()) == at(folder.path().string()));
    CHECK(said(folder / "pipe") == at((folder / "pipe").string()));
    CHECK(said(path, 4) == at(path.string(), {", found 5"}));
    CHECK(said(path, 5) == "no error");
  }
}

TEST_CASE("a file without permission is refused" NEEDS("permissions")) {
  if (::geteuid() == 0) {
    skip("a user who is not root: root may read every file");
    return;
  }
  const temporary_folder folder;
  const auto path = folder.write("secret", "1");
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  CHECK(error_of([&] { const mapped_file opened(path); }) == at(path.string()));
}
