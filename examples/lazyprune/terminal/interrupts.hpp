// SPDX-License-Identifier: MIT
// Ctrl-C ends the work in order, and no signal leaves half a file.
#pragma once

#include <lazyprune/model/observer.hpp>

namespace lazyprune {
namespace program {

/// From now on signals that end the program first remove what it has written and not finished. Those that are ignored stay so (nohup).
/// Ctrl-C is left to catch_interrupts: no other command has a file open for long.
void remove_files_when_ended();

/// From now on the first Ctrl-C is noted; the second ends the program, as if it had never been caught. Whoever started the program with
/// Ctrl-C ignored, in the background of a shell say, wants it ignored.
void catch_interrupts();

/// Whether one was noted.
bool interrupted();

/// What was noted is over, and the next Ctrl-C counts as the first.
void forget_interrupt();

/// Stops a step between two layers once there was one.
struct ends_when_interrupted final : step_observer {
  bool stops() override { return interrupted(); }
};

}  // namespace program
}  // namespace lazyprune
