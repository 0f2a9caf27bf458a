// SPDX-License-Identifier: MIT
// lazyprune, the command line: generates text with a model while a policy prunes its tokens, and measures what that saves.

#include <lazyprune/registry/shipped_policies.hpp>

#include "program.hpp"

int main(int argc, char** argv) { return lazyprune::program::run_program(argc, argv, lazyprune::shipped_policies()); }
