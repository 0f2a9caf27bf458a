// SPDX-License-Identifier: MIT
// lazyprune compare: do two traces of one input agree?

#include <iostream>

#include "arguments.hpp"
#include "commands.hpp"

#include <lazyprune/eval/trace_compare.hpp>
#include <lazyprune/io/trace_file.hpp>

namespace {

struct compare_flags {
  std::string a, b;
  double tolerance = 1e-4;
};

int compare(const compare_flags& flags) {
  const auto comparison = lazyprune::compare_traces(lazyprune::read_trace(flags.a), lazyprune::read_trace(flags.b), flags.tolerance);
  std::cout << comparison.text();
  return comparison.alike ? 0 : 2;
}

}  // namespace

void add_compare(CLI::App& program, action& chosen) {
  const auto flags = std::make_shared<compare_flags>();
  CLI::App& command = *program.add_subcommand("compare", "Compare two traces of one input; exit code 0: alike, 2: different");
  command.add_option("A", flags->a, "A trace")->type_name("A.jsonl")->required();
  command.add_option("B", flags->b, "Another")->type_name("B.jsonl")->required();
  add_number(command, "--tolerance", flags->tolerance, number_range<double>{0}, "Logits may be this far apart (default: 1e-4)");
  command.final_callback([flags, &chosen] { chosen = [flags] { return compare(*flags); }; });
}
