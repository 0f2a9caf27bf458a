// SPDX-License-Identifier: MIT
#include "serve/request_log.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include <fault.hpp>

#include "programs/program.hpp"

using lazyprune::program::request_log;
using lazyprune_test::error_of;

TEST_CASE("each request is a line of JSON after those that the file had, whichever thread writes it") {
  const temporary_folder folder;
  const std::string file = folder / "log";
  write_file(file, "an older line\n");
  {
    request_log log(file);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&log, i] {
        for (int k = 0; k < 50; ++k) log.add({{"number", 50 * i + k}, {"bytes", "\xff"}});
      });
    for (std::thread& each : threads) each.join();
  }
  const std::vector<std::string> lines = lines_of(file_text(file));
  REQUIRE(lines.size() == 201);
  CHECK(lines.front() == "an older line");
  std::vector<bool> seen(200);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto line = nlohmann::ordered_json::parse(lines[i]);
    CHECK(line.begin().key() == "time");
    CHECK(line["time"] > 1.7e9);
    seen.at(line["number"].get<std::size_t>()) = true;
  }
  CHECK(seen == std::vector<bool>(200, true));
}

TEST_CASE("without a file there is no log; a file that cannot be opened is an error, and a full disk is none") {
  request_log("").add({{"number", 1}});
  const temporary_folder folder;
  CHECK(error_of([&] { request_log log(folder / "none/log"); }).where == "--log: " + (folder / "none/log"));
  request_log full("/dev/full");
  full.add({{"number", 1}});
  full.add({{"number", 2}});
}
