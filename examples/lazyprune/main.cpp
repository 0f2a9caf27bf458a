// SPDX-License-Identifier: MIT
// lazyprune, the command line: generates text with a model while a policy prunes its tokens, and measures what that saves.

#include <cstdio>
#include <iostream>
#include <new>

#include "commands.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/version.hpp>

namespace {

/// One line, whatever bytes the names and values in it have.
int complain(std::string_view problem, int code) {
  std::string line = "lazyprune: ";
  for (const char c : problem) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line += c;
    } else {
      char digits[5];
      std::snprintf(digits, sizeof digits, "\\x%02x", static_cast<unsigned char>(c));
      line += digits;
    }
  }
  std::cerr << line << std::endl;
  return code;
}

/// The first argument that no command knows, if that is what is wrong.
std::string unknown_argument(const CLI::App& program) {
  const auto left = program.remaining(true);
  return left.empty() ? "" : left.front();
}

int start(int argc, char** argv) {
  CLI::App program{
      "Generates text with a language model while a policy prunes its tokens (LazyLLM, arXiv 2407.14057), and measures what "
      "that saves.",
      "lazyprune"};
  program.set_version_flag("--version", "lazyprune " LAZYPRUNE_VERSION_STRING);
  program.require_subcommand(1);
  action chosen;
  add_run(program, chosen);
  add_compare(program, chosen);
  add_bench(program, chosen);
  add_inspect(program, chosen);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return program.exit(problem);  // help, version
    const std::string unknown = unknown_argument(program);
    if (!unknown.empty()) throw lazyprune::error("arguments", "", "what `lazyprune --help` shows", unknown);
    if (program.get_subcommands().empty()) throw lazyprune::error("arguments", "", "a command: run, compare, bench or inspect", "none");
    throw lazyprune::error("arguments", "", "what `lazyprune --help` shows", problem.what());
  }
  const int code = chosen();
  if (!std::cout.flush()) throw lazyprune::io_error("stdout", "", "to write all of the output", "a fault");
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const lazyprune::io_error& problem) {
    return complain(problem.what(), 3);
  } catch (const lazyprune::error& problem) {
    return complain(problem.what(), 1);
  } catch (const std::bad_alloc&) {
    return complain("memory: expected enough for the model and its caches, found too little", 3);
  } catch (const std::length_error&) {
    return complain("memory: expected enough for the model and its caches, found too little", 3);
  } catch (const std::exception& problem) {
    return complain(problem.what(), 3);
  }
}
