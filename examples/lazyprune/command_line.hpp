// SPDX-License-Identifier: MIT
// Parses and checks the arguments. A malformed number, a number out of range or an unknown name gives an error of one line.
#pragma once

#include <functional>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

/// A command with its arguments, ready to run. A call runs the command and returns the exit code of the program.
using action = std::function<int()>;

/// Returns the action that the arguments ask for. Throws `error` if they are wrong. The registry must outlive the action.
action parse_command_line(int argc, char** argv, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
