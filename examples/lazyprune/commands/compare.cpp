// SPDX-License-Identifier: MIT
#include "commands/compare.hpp"

#include <iostream>

#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/io/trace_file.hpp>

namespace lazyprune {
namespace program {

int compare(const compare_flags& flags) {
  const auto comparison = compare_traces(read_trace(flags.a), read_trace(flags.b), flags.tolerance);
  std::cout << comparison.text();
  return comparison.alike ? 0 : 2;
}

}  // namespace program
}  // namespace lazyprune
