// SPDX-License-Identifier: MIT
#include <lazyprune/files/output_file.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <files/support.hpp>
#include <skip.hpp>
#include <test_data.hpp>
#include <threads/on_threads.hpp>

using namespace lazyprune_test;
using lazyprune::output_file;

namespace {

std::filesystem::path watched;                               // if set, `synced` lists the calls of fsync
std::vector<std::pair<std::filesystem::path, bool>> synced;  // what was synced, and whether `watched` existed at that time

}  // namespace

/// Replaces the C library's fsync in this program.
extern "C" int fsync(int file) {
  if (!watched.empty())
    synced.emplace_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)), std::filesystem::exists(watched));
  return static_cast<int>(::syscall(SYS_fsync, file));
}

TEST_CASE("a file gets its name when it is committed, and is complete then") {
  const temporary_folder folder;
  const auto path = folder.write("out", "what was there");
  std::string all;
  {
    output_file out(path);
    for (std::size_t n : {0u, 1u, 100u, 65'535u, 65'536u, 65'537u, 300'000u, 2u}) {  // near the size of the buffer
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

TEST_CASE("without commit nothing is left, and an older file stays") {
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

TEST_CASE("two writers of one name do not mix: the last commit wins") {
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

TEST_CASE("threads may write to one name at the same time, and the file then holds what one of them has written") {
  const temporary_folder folder;
  constexpr std::size_t writers = 4;
  on_threads(writers, [&](std::size_t i) {
    for (int n = 0; n < 100; ++n) {
      output_file file(folder / "x");
      file.write(std::string(1000, static_cast<char>('a' + i)));
      file.commit();
    }
  });
  CHECK(folder.files() == 1);
  const std::string text = read_text(folder / "x");
  CHECK(text.size() == 1000);
  CHECK(text.find_first_not_of(text.front()) == text.npos);
}

TEST_CASE("names that cannot be written to are refused") {
  const temporary_folder folder;
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { const output_file out(path); }); };
  CHECK(said(folder.path()) == at(folder.path().string()));
  CHECK(said(folder / "no/such") == at((folder / "no/such").string()));
  CHECK(said(folder / "new/") == at((folder / "new/").string()));
  CHECK(folder.files() == 0);
}

TEST_CASE("a symbolic link stays, and the file that it leads to is replaced") {
  const temporary_folder folder, elsewhere;
  elsewhere.write("target", "what was there");
  std::filesystem::create_symlink(elsewhere / "target", folder / "link");
  std::filesystem::create_symlink("link", folder / "of-a-link");
  std::filesystem::create_symlink(elsewhere / "new", folder / "to-nothing");
  for (const char* name : {"link", "of-a-link", "to-nothing"}) {
    output_file out(folder / name);
    out.write(name);
    CHECK(folder.files() == 3);  // the unfinished file is in the other folder, beside the link's target
    out.commit();
    CHECK(std::filesystem::is_symlink(folder / name));
    CHECK(read_text(folder / name) == name);
  }
  CHECK(read_text(elsewhere / "target") == "of-a-link");
  CHECK(read_text(elsewhere / "new") == "to-nothing");
  CHECK(elsewhere.files() == 2);
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(error_of([&] { const output_file out(folder / "loop"); }) != "no error");
}

TEST_CASE("a file keeps its permissions, also while it is written; a new file has those that the umask leaves") {
  const temporary_folder folder;
  const auto mode_of = [](const std::filesystem::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  const mode_t before = ::umask(022);
  for (const mode_t mode : {0600u, 0644u, 0666u, 0440u}) {
    CAPTURE(mode);
    const auto path = folder.write("out", "secret");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    {
      output_file out(path);
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) CHECK(mode_of(entry.path()) == mode);
      out.commit();
    }
    CHECK(mode_of(path) == mode);
    std::filesystem::remove(path);
  }
  output_file out(folder / "new");
  out.commit();
  ::umask(before);
  CHECK(mode_of(folder / "new") == 0644);
}

TEST_CASE("a signal that ends the process removes uncommitted files") {
  const temporary_folder folder;
  folder.write("there", "what was there");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGTERM, [](int) {
      lazyprune::remove_unfinished_files();
      ::_exit(0);
    });
    output_file done(folder / "done"), there(folder / "there"), fresh(folder / "fresh");
    done.write("done");
    done.commit();
    there.write(std::string(100'000, 'x'));
    { const output_file gone(folder / "gone"); }
    std::raise(SIGTERM);
    ::_exit(1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(folder.files() == 2);
  CHECK(read_text(folder / "done") == "done");
  CHECK(read_text(folder / "there") == "what was there");
}

TEST_CASE("more files than a signal handler could remove (64) can be written at the same time") {
  const temporary_folder folder;
  std::vector<std::unique_ptr<output_file>> files;
  for (int i = 0; i < 70; ++i) files.push_back(std::make_unique<output_file>(folder / std::to_string(i)));
  for (int i = 0; i < 70; i += 2) files[static_cast<std::size_t>(i)]->commit();
  files.clear();
  CHECK(folder.files() == 35);
}

TEST_CASE("a device is written directly, not replaced") {
  output_file out("/dev/null");
  out.write("gone");
  out.commit();
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a full device is an error of code io that names the device" NEEDS("dev-full")) {
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

TEST_CASE("a commit syncs the file before the file gets its name, and then syncs the folder") {
  const temporary_folder folder;
  output_file out(folder / "out");
  out.write("x");
  synced.clear();
  watched = folder / "out";
  out.commit();
  watched.clear();
  REQUIRE(synced.size() == 2);
  CHECK(synced[0].first.filename().string().starts_with("out"));
  CHECK(!synced[0].second);
  CHECK(synced[1] == std::pair(std::filesystem::canonical(folder.path()), true));
}

TEST_CASE("a full disk is an error of code io that names the file, and leaves nothing") {
  // A limit on file sizes makes a write fail in the middle.
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
  CHECK(said == at((folder / "out").string() + ": not complete, so removed", {}, lazyprune::error_code::io));
  CHECK(folder.files() == 0);
}
