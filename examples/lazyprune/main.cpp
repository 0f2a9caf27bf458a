// SPDX-License-Identifier: MIT
// lazyprune, the command line: generates text with a model while a policy prunes its tokens, and measures what that saves.

#include <cstdio>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "command_line.hpp"

#include <lazyprune/core/error.hpp>

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

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = parse_command_line(argc, argv)();
    if (!std::cout.flush()) throw lazyprune::io_error("stdout", "", "to write all of the output", "a fault");
    return code;
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
