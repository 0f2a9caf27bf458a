// SPDX-License-Identifier: MIT
// The input is a command line of the program, one argument a line. Parsing reports an error, or gives a command, which is not run.
#include <command_line.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/registry/shipped_policies.hpp>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune_test;
  static const lazyprune::policy_registry policies = lazyprune::shipped_policies();
  std::vector<std::string> arguments{"lazyprune"};
  std::string_view rest = text_of({data, size});
  while (!rest.empty() && arguments.size() < 64) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    arguments.emplace_back(line.substr(0, line.find('\0')));
  }
  std::vector<char*> pointers;
  for (std::string& each : arguments) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  // The parser makes all its flags anew each time, which takes about a megabyte.
  const bounded_work bounds(size, {.bytes = 256, .more_bytes = std::size_t{4} << 20, .microseconds = 200});
  unless_refused([&] { (void)lazyprune::program::parse_command_line(static_cast<int>(arguments.size()), pointers.data(), policies); });
  return 0;
}
