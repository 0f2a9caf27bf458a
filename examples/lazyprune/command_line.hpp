// SPDX-License-Identifier: MIT
// What was typed, checked to the last character: what is no number, out of its range or unknown ends in one clear line.
#pragma once

#include <functional>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

/// Returns the exit code.
using action = std::function<int()>;

/// What the arguments ask for. Throws `error` where they make no sense. The registry must outlive the action.
action parse_command_line(int argc, char** argv, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
