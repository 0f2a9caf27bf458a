// SPDX-License-Identifier: MIT
#include "terminal/interrupts.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "../program.hpp"

TEST_CASE("a signal that ends the program leaves no unfinished file") {
  std::string ids = "1";
  for (int i = 1; i < 3000; ++i) ids += ",5";
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGINT}) {
    CAPTURE(signal);
    const temporary_folder files;
    running_program program({"run", "--ids", ids, "-n", "1", "--backend", "reference", "-t", "1", "--trace", files / "t.jsonl"});
    program.until([&] { return program.catches(signal) && !std::filesystem::is_empty(files.path()); });
    program.computes(0.6);  // now it computes the first of six layers; each takes seconds
    program.send(signal);
    for (; signal == SIGINT && program.catches(signal); ::usleep(1000)) program.send(signal);  // the first Ctrl-C does not end the program
    CHECK(program.wait().code == 128 + signal);
    CHECK(std::filesystem::is_empty(files.path()));
  }
}

TEST_CASE("a hangup that is ignored stays ignored") {
  const temporary_folder files;
  running_program program({"-c", "trap '' HUP; exec \"$LAZYPRUNE\" run -p x -n 300 --ignore-eos --trace " + files / "t.jsonl"}, "",
                          {"LAZYPRUNE=" LAZYPRUNE_PROGRAM}, "/bin/sh");
  program.until([&] { return !program.out().empty(); });
  program.send(SIGHUP);
  CHECK(program.wait().code == 0);
  CHECK(std::filesystem::exists(files / "t.jsonl"));
}
