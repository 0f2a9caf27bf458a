// SPDX-License-Identifier: MIT
// lazyprune compare: do two traces of one input agree?

#include <iostream>

#include "commands/flags.hpp"

#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/io/trace_file.hpp>

namespace lazyprune {
namespace program {

int compare(const compare_flags& flags) {
  const auto comparison = lazyprune::compare_traces(lazyprune::read_trace(flags.a), lazyprune::read_trace(flags.b), flags.tolerance);
  std::cout << comparison.text();
  return comparison.alike ? 0 : 2;
}

}  // namespace program
}  // namespace lazyprune
