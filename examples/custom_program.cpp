// SPDX-License-Identifier: MIT
// The whole command line, with custom policies (my_policies.hpp) and those of the library. `help pruning` lists all of them, and the usual
// flags choose them.
//   custom_program run -f examples/pocket/prompts/profile.txt --compare --policy mine
//   custom_program run -f examples/pocket/prompts/profile.txt --compare --stages 2:0.4,4:0.2 --scorer loud_neighbours:carry=0.7

#include "my_policies.hpp"
#include "program.hpp"

int main(int argc, char** argv) { return lazyprune::program::run_program(argc, argv, mine::policies); }
