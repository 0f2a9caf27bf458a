// SPDX-License-Identifier: MIT
#include <lazyprune/files/read_ahead.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <files/support.hpp>
#include <skip.hpp>

#include <lazyprune/files/descriptor.hpp>

namespace {

/// Returns how many pages of the file are in memory.
std::size_t pages_in_memory(const lazyprune::mapped_file& file) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in_memory((file.bytes().size() + page - 1) / page);
  REQUIRE(::mincore(const_cast<std::byte*>(file.bytes().data()), file.bytes().size(), in_memory.data()) == 0);
  std::size_t n = 0;
  for (const unsigned char one : in_memory) n += one & 1;
  return n;
}

/// Drops a file's pages from memory. They stay there if the file system has no disk.
void drop(const std::filesystem::path& path) {
  const lazyprune::file_descriptor file = lazyprune::open_file(path, O_RDONLY, path.string(), "a file");
  ::fsync(file.get());  // unwritten pages cannot be dropped
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

TEST_CASE("requests change no bytes, even if the destructor drops some of them") {
  const lazyprune_test::temporary_folder folder;
  const std::string numbers(std::size_t{9} << 20, 'x');
  const lazyprune::mapped_file file(folder.write("weights", numbers));
  for (int asked = 0; asked < 4; ++asked) {
    lazyprune::read_ahead ahead;
    for (int i = 0; i < asked; ++i) ahead.ask(file, file.bytes().subspan(static_cast<std::size_t>(i) << 20));
    ahead.ask(file, {});
  }
  CHECK(file.text() == numbers);
}

TEST_CASE("requested pages come into memory without a reader" NEEDS("disk")) {
  const lazyprune_test::temporary_folder folder;
  const auto path = folder.write("weights", std::string(std::size_t{9} << 20, 'x'));
  drop(path);
  const lazyprune::mapped_file file(path);
  if (pages_in_memory(file) > 0) {
    lazyprune_test::skip("a file system on a disk for temporary files ($TMPDIR): this one keeps them in memory");
    return;
  }
  lazyprune::read_ahead ahead;
  ahead.ask(file, file.bytes());
  // A request is only advice. If other processes need memory, the system may leave out some pages.
  const std::size_t most = file.bytes().size() / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 4 * 3;
  for (int tenths = 0; tenths < 300 && pages_in_memory(file) < most; ++tenths) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(pages_in_memory(file) >= most);
}
