// SPDX-License-Identifier: MIT
#include "questions/prediction_file.hpp"

#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>

#include <doctest/doctest.h>

#include <lazyprune/eval/records.hpp>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune;
using namespace lazyprune::program;
using namespace lazyprune_test;

namespace {

eval_prediction prediction(std::string text) {
  return {.text = std::move(text), .answers = {"a"}, .all_classes = {}, .length = 3, .id = "i", .cost = {}};
}

std::string line(std::string text) { return to_line(prediction(std::move(text))) + '\n'; }

}  // namespace

TEST_CASE("every prediction is written to the unfinished file at once; commit renames it") {
  const temporary_folder folder;
  prediction_file file(folder / "p", false);
  file.add(prediction("one"));
  CHECK(read_text(folder / "p.unfinished") == line("one"));
  file.add(prediction("two"));
  CHECK(read_text(folder / "p.unfinished") == line("one") + line("two"));
  CHECK(file.done() == std::vector{prediction("one"), prediction("two")});
  CHECK_FALSE(std::filesystem::exists(folder / "p"));
  file.commit();
  CHECK(read_text(folder / "p") == line("one") + line("two"));
  CHECK(folder.files() == 1);
}

TEST_CASE("a symbolic link stays, and its target keeps its permissions") {
  const temporary_folder folder, elsewhere;
  const auto target = elsewhere.write("target", line("old"));
  REQUIRE(::chmod(target.c_str(), 0600) == 0);
  std::filesystem::create_symlink(target, folder / "p");
  prediction_file file(folder / "p", false);
  file.add(prediction("one"));
  CHECK(read_text(elsewhere / "target.unfinished") == line("one"));
  file.commit();
  CHECK(std::filesystem::is_symlink(folder / "p"));
  CHECK(read_text(target) == line("one"));
  struct stat status {};
  REQUIRE(::stat(target.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(folder.files() + elsewhere.files() == 2);
}

TEST_CASE("an interrupted run goes on, even after an incomplete last line") {
  const std::string two = line("one") + line("two");
  for (std::size_t end = 0; end <= two.size(); ++end) {
    const temporary_folder folder;
    folder.write("p.unfinished", two.substr(0, end));
    prediction_file file(folder / "p", true);
    CHECK(file.done().size() == (end == two.size()) + (end >= line("one").size()));
    for (const std::string text : {"one", "two", "three"})
      if (file.done().size() < (text == "one" ? 1u : text == "two" ? 2u : 3u)) file.add(prediction(text));
    file.commit();
    REQUIRE(read_text(folder / "p") == two + line("three"));
  }
}

TEST_CASE("a finished file can be extended, and stays in place until the new one is committed") {
  const temporary_folder folder;
  folder.write("p", line("one"));
  prediction_file file(folder / "p", true);
  CHECK(file.done() == std::vector{prediction("one")});
  file.add(prediction("two"));
  CHECK(read_text(folder / "p") == line("one"));
  file.commit();
  CHECK(read_text(folder / "p") == line("one") + line("two"));
}

TEST_CASE("an unfinished file that is a part of a copy of the finished one loses no prediction") {
  const std::string two = line("one") + line("two");
  for (std::size_t end = 0; end <= two.size(); ++end) {  // a process was killed while it copied the file
    const temporary_folder folder;
    folder.write("p", two);
    folder.write("p.unfinished", two.substr(0, end));
    {
      prediction_file file(folder / "p", true);
      REQUIRE(file.done() == std::vector{prediction("one"), prediction("two")});
      REQUIRE(read_text(folder / "p.unfinished") == two);
    }
    REQUIRE(folder.files() == 1);
    REQUIRE(read_text(folder / "p") == two);
  }
  const temporary_folder folder;
  folder.write("p", two);
  folder.write("p.unfinished", line("three"));  // a run that was to replace the finished file
  prediction_file file(folder / "p", true);
  CHECK(file.done() == std::vector{prediction("three")});
}

TEST_CASE("an empty unfinished file is no reason to ask for --resume") {
  const temporary_folder folder;
  folder.write("p.unfinished", "");
  prediction_file file(folder / "p", false);
  file.add(prediction("one"));
  file.commit();
  CHECK(read_text(folder / "p") == line("one"));
  CHECK(folder.files() == 1);
}

TEST_CASE("a pipe is refused and stays, and so is a loop of symbolic links") {
  const temporary_folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const char* name : {"pipe", "loop"})
    for (const bool resume : {false, true}) {
      CAPTURE(name);
      CHECK(error_of([&] { prediction_file(folder / name, resume); }) == at((folder / name).string()));
      CHECK(error_of([&] { newest_file(folder / name); }) == at((folder / name).string()));
    }
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  REQUIRE(::mkfifo((folder / "p.unfinished").c_str(), 0600) == 0);
  CHECK(error_of([&] { prediction_file(folder / "p", true); }) == at((folder / "p.unfinished").string()));
  CHECK(folder.files() == 3);
}

TEST_CASE("the newest file is the unfinished one if it has lines, or if no file is finished") {
  const temporary_folder folder;
  CHECK_FALSE(newest_file(folder / "p"));
  folder.write("p.unfinished", "");
  CHECK(newest_file(folder / "p") == folder / "p.unfinished");
  folder.write("p", line("one"));
  CHECK(newest_file(folder / "p") == folder / "p");
  folder.write("p.unfinished", line("two"));
  CHECK(newest_file(folder / "p") == folder / "p.unfinished");
  std::filesystem::remove(folder / "p.unfinished");
  CHECK(newest_file(folder / "p") == folder / "p");
}

TEST_CASE("a file that is refused leaves no new unfinished file") {
  const temporary_folder folder;
  folder.write("p", "no prediction\n");
  CHECK_THROWS_AS(prediction_file(folder / "p", true), error);
  CHECK(folder.files() == 1);
}

TEST_CASE("commit sorts predictions that came in another order") {
  const temporary_folder folder;
  folder.write("p.unfinished", line("three") + line("one"));
  {
    prediction_file file(folder / "p", true);
    file.add(prediction("two"));
    CHECK(read_text(folder / "p.unfinished") == line("three") + line("one") + line("two"));
    file.commit(std::vector<std::size_t>{1, 2, 0});
  }
  CHECK(read_text(folder / "p") == line("one") + line("two") + line("three"));
  CHECK(folder.files() == 1);
}

TEST_CASE("if already the first prediction does not fit on the disk, the error says that nothing was written, and no file stays") {
  const temporary_folder folder;
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto earlier = std::signal(SIGXFSZ, SIG_IGN);
  fault said{};
  {
    prediction_file file(folder / "p", false);
    ::rlimit tight = before;
    tight.rlim_cur = 10;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
    said = error_of([&] { file.add(prediction("one")); });
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  }
  std::signal(SIGXFSZ, earlier);
  CHECK(said == at((folder / "p").string() + ": nothing was written", {}, error_code::io));
  CHECK(folder.files() == 0);
}

TEST_CASE("a prediction that does not fit on the disk leaves nothing behind, and later ones are complete") {
  const temporary_folder folder;
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto earlier = std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails, as on a full disk
  prediction_file file(folder / "p", false);
  file.add(prediction("one"));
  ::rlimit tight = before;
  tight.rlim_cur = line("one").size() + 10;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const fault said = error_of([&] { file.add(prediction("two")); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, earlier);
  CHECK(said == at((folder / "p").string() + ": unfinished: " + (folder / "p.unfinished").string(), {}, error_code::io));
  CHECK(read_text(folder / "p.unfinished") == line("one"));
  file.add(prediction("three"));
  file.commit();
  CHECK(read_text(folder / "p") == line("one") + line("three"));
}

TEST_CASE("without predictions no file is left") {
  const temporary_folder folder;
  { const prediction_file file(folder / "p", false); }
  CHECK(folder.files() == 0);
  folder.write("p", line("one"));
  { const prediction_file file(folder / "p", true); }
  CHECK(folder.files() == 1);
  folder.write("p.unfinished", line("two"));  // which is not in the finished file
  { const prediction_file file(folder / "p", true); }
  CHECK(read_text(folder / "p.unfinished") == line("two"));
}

TEST_CASE("without resume a finished file is replaced, but an unfinished one is refused") {
  const temporary_folder folder;
  folder.write("p", line("one"));
  {
    prediction_file file(folder / "p", false);
    CHECK(file.done().empty());
    file.add(prediction("two"));
    file.commit();
  }
  CHECK(read_text(folder / "p") == line("two"));
  folder.write("p.unfinished", line("one"));
  CHECK(error_of([&] { prediction_file(folder / "p", false); }) == at((folder / "p.unfinished").string(), {"--resume"}));
  CHECK(read_text(folder / "p.unfinished") == line("one"));
}

TEST_CASE("a second writer is refused, and so is a file that does not hold predictions") {
  const temporary_folder folder;
  {
    prediction_file file(folder / "p", true);
    CHECK(error_of([&] { prediction_file(folder / "p", true); }) == at((folder / "p.unfinished").string()));
  }
  folder.write("p.unfinished", "{}\n" + line("one"));
  CHECK(error_of([&] { prediction_file(folder / "p", true); }) == at((folder / "p.unfinished").string() + ": line 1", {"\"pred\""}));
  CHECK_THROWS_AS(prediction_file(folder / "no/p", false), error);
  for (const char* name : {"", "folder", "folder/"}) {
    std::filesystem::create_directories(folder / "folder");
    CHECK(error_of([&] { prediction_file(folder / name, false); }) == at((folder / name).string()));
  }
}
