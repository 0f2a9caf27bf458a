// SPDX-License-Identifier: MIT
// What was typed, checked to the last character: what is no number, out of its range or unknown ends in one clear line.
#pragma once

#include <functional>

namespace lazyprune {
namespace program {

/// Returns the exit code.
using action = std::function<int()>;

/// What the arguments ask for. Throws `error` where they make no sense.
action parse_command_line(int argc, char** argv);

}  // namespace program
}  // namespace lazyprune
