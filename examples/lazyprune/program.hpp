// SPDX-License-Identifier: MIT
// The program lazyprune, whole but for `main`: with it a program of one's own takes three lines, and knows one's own policies.
//
//   int main(int argc, char** argv) {
//     lazyprune::policy_registry policies = lazyprune::shipped_policies();
//     policies.add<my_scorer>();
//     return lazyprune::program::run_program(argc, argv, policies);
//   }
#pragma once

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

/// Does what the arguments say, with the policies that flags can name. Returns the exit code; an error is one line on stderr.
int run_program(int argc, char** argv, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
