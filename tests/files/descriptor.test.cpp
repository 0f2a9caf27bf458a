// SPDX-License-Identifier: MIT
#include <lazyprune/files/descriptor.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <files/support.hpp>

using namespace lazyprune_test;
using lazyprune::open_file;
using lazyprune::read_fully;
using lazyprune::write_fully;

namespace {

/// Imitates a POSIX call that handles a few bytes at a time and is interrupted before each success. It fails with `code` after `until`
/// bytes.
struct faulty {
  std::size_t at_once, until;
  int code = 0;  // 0: the end of the file
  std::size_t done = 0;
  bool interrupt = true;

  ssize_t operator()(std::size_t n) {
    if (interrupt) return interrupt = false, errno = EINTR, -1;
    interrupt = true;
    const std::size_t now = std::min({n, at_once, until - done});
    if (now == 0 && code != 0) return errno = code, -1;
    done += now;
    return static_cast<ssize_t>(now);
  }
};

}  // namespace

TEST_CASE("read_fully continues after short reads and signals") {
  const std::string file = "0123456789";
  for (const std::size_t at_once : {1u, 3u, 10u, 100u}) {
    faulty call{at_once, file.size()};
    std::array<std::byte, 10> out{};
    read_fully(out, "f", [&](std::byte* to, std::size_t n) {
      const std::size_t from = call.done;
      const ssize_t got = call(n);
      if (got > 0) std::copy_n(reinterpret_cast<const std::byte*>(file.data()) + from, got, to);
      return got;
    });
    CHECK(std::string(reinterpret_cast<const char*>(out.data()), out.size()) == file);
  }
}

TEST_CASE("read_fully: a failing disk and a shrinking file are errors of code io, with file and place") {
  std::array<std::byte, 10> out{};
  const auto read = [&](faulty call) {
    return error_of([&] { read_fully(out, "weights", [&](std::byte*, std::size_t n) { return call(n); }); });
  };
  CHECK(read({4, 8, EIO}) == at("weights: byte 8", {}, lazyprune::error_code::io));
  CHECK(read({4, 7, 0}) == at("weights: byte 7", {"10"}, lazyprune::error_code::io));
}

TEST_CASE("write_fully continues after partial writes and signals, and reports failures") {
  std::string written;
  faulty call{3, 1000};
  CHECK(write_fully("0123456789", [&](const char* at, std::size_t n) {
    const ssize_t put = call(n);
    if (put > 0) written.append(at, static_cast<std::size_t>(put));
    return put;
  }));
  CHECK(written == "0123456789");
  faulty full{3, 6, ENOSPC};
  CHECK_FALSE(write_fully("0123456789", [&](const char*, std::size_t n) { return full(n); }));
  CHECK(errno == ENOSPC);
}

TEST_CASE("open_file: a bad name is an error of code bad_input; running out of descriptors is an error of code io") {
  CHECK(error_of([] { open_file("/no/such/file", O_RDONLY, "the name", "a file"); }) == at("the name"));
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto said = error_of([] { open_file("/dev/null", O_RDONLY, "the name", "a file"); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(said == at("the name: open", {}, lazyprune::error_code::io));
}

TEST_CASE("behind_links: the path at the end of the links; a link that cannot be read is an error") {
  const temporary_folder folder;
  std::filesystem::create_symlink("second", folder / "first");
  std::filesystem::create_symlink("third", folder / "second");
  CHECK(lazyprune::behind_links(folder / "first") == folder / "third");
  CHECK(lazyprune::behind_links(folder / "none") == folder / "none");
  const auto too_long = folder / std::string(300, 'x');
  CHECK(error_of([&] { lazyprune::behind_links(too_long); }) == at(too_long.string()));
}

TEST_CASE("a descriptor is closed once, by its last owner") {
  auto first = open_file("/dev/null", O_RDONLY, "n", "a file");
  const int number = first.get();
  {
    const auto second = std::move(first);
    CHECK(first.get() == -1);
    CHECK(::fcntl(number, F_GETFD) != -1);
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("same_file follows links, and reports a path about which the system says nothing") {
  const temporary_folder files;
  const std::string folder = files / "folder", file = folder + "/file", link = files / "link";
  std::filesystem::create_directory(folder);
  std::ofstream(file) << "";
  std::filesystem::create_symlink(folder, link);
  CHECK(lazyprune::same_file(folder, link));
  CHECK(lazyprune::same_file(file, link + "/../folder/file"));
  CHECK_FALSE(lazyprune::same_file(folder, file));
  CHECK_FALSE(lazyprune::same_file(folder, files / "none"));
  CHECK_FALSE(lazyprune::same_file(file + "/none", file));
  const std::string long_name = files / std::string(300, 'x');  // longer than the name of a file may be
  CHECK(error_of([&] { (void)lazyprune::same_file(folder, long_name); }) == at(long_name));
}
