// SPDX-License-Identifier: MIT
#include <lazyprune/files/output_file.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include <sys/resource.h>

#include <files/support.hpp>
#include <skip.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::output_file;

TEST_CASE("the file has its name once it is committed, and is whole") {
  const temporary_folder folder;
  const auto path = folder.write("out", "what was there");
  std::string all;
  {
    output_file out(path);
    for (std::size_t n : {0u, 1u, 100u, 65'535u, 65'536u, 65'537u, 300'000u, 2u}) {  // around the size of the buffer
      const std::string part(n, static_cast<char>('a' + n % 26));
      out.write(part);
      all += part;
    }
    CHECK(read_text(path) == "what was there");
    out.commit();
    CHECK(read_text(path) == all);
  }
  CHECK(read_text(path) == all);
  CHECK(folder.files() == 1);
}

TEST_CASE("without commit nothing is left, and what was there stays") {
  const temporary_folder folder;
  const auto path = folder.write("out", "what was there");
  {
    output_file out(path);
    out.write(std::string(100'000, 'x'));
    CHECK(folder.files() == 2);
  }
  CHECK(folder.files() == 1);
  CHECK(read_text(path) == "what was there");
}

TEST_CASE("two writers of one name do not mix: the last to commit wins") {
  const temporary_folder folder;
  output_file first(folder / "out"), second(folder / "out");
  first.write("first");
  second.write("second");
  second.commit();
  CHECK(read_text(folder / "out") == "second");
  first.commit();
  CHECK(read_text(folder / "out") == "first");
  CHECK(folder.files() == 1);
}

TEST_CASE("names that cannot be written to") {
  const temporary_folder folder;
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { const output_file out(path); }); };
  CHECK(said(folder.path()) == at(folder.path().string()));
  CHECK(said(folder / "no/such") == at((folder / "no/such").string()));
  CHECK(said(folder / "new/") == at((folder / "new/").string()));
  CHECK(folder.files() == 0);
}

TEST_CASE("a device is written to, not replaced") {
  output_file out("/dev/null");
  out.write("gone");
  out.commit();
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a full device: an error of code io that names it" NEEDS("dev-full")) {
  if (!std::filesystem::exists("/dev/full")) {
    skip("/dev/full");
    return;
  }
  CHECK(error_of([] {
          output_file out("/dev/full");
          out.write("x");
          out.commit();
        }) == at("/dev/full: unfinished", {}, lazyprune::error_code::io));
}

TEST_CASE("a full disk: an error of code io that names the file, and nothing left of it") {
  // A limit on the size of files fails a plain file in the middle.
  const temporary_folder folder;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit low = limit;
  low.rlim_cur = 100'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  const auto said = error_of([&] {
    output_file out(folder / "out");
    for (int i = 0; i < 100; ++i) out.write(std::string(10'000, 'x'));
    out.commit();
  });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::signal(SIGXFSZ, before);
  CHECK(said == at((folder / "out").string() + ": unfinished and removed", {}, lazyprune::error_code::io));
  CHECK(folder.files() == 0);
}
