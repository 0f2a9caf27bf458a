// SPDX-License-Identifier: MIT
// The command-line program lazyprune. It generates text with a model while a policy prunes tokens, and measures what the pruning saves.

#include <lazyprune/registry/shipped_policies.hpp>

#include "program.hpp"

int main(int argc, char** argv) { return lazyprune::program::run_program(argc, argv, lazyprune::shipped_policies); }
