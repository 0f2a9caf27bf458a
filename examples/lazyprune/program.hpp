// SPDX-License-Identifier: MIT
// The whole program lazyprune without `main`. Your own program with your own policies takes a few lines:
//
//   lazyprune::policy_registry my_policies() {
//     lazyprune::policy_registry policies = lazyprune::shipped_policies();
//     policies.add<my_scorer>();
//     return policies;
//   }
//
//   int main(int argc, char** argv) { return lazyprune::program::run_program(argc, argv, my_policies); }
#pragma once

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

/// Runs the command in the arguments. Flags may name the policies that `policies` returns. Prints an error as one line on stderr. Returns
/// the exit code.
int run_program(int argc, char** argv, policy_registry (*policies)());

}  // namespace program
}  // namespace lazyprune
