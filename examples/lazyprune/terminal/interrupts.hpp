// SPDX-License-Identifier: MIT
// Handles signals: after Ctrl-C the program ends its work in an orderly way, and no signal leaves an unfinished file behind.
#pragma once

#include <lazyprune/model/observer.hpp>

namespace lazyprune {
namespace program {

/// From now on, before a signal ends the program, the program's unfinished output files are removed. Ignored signals stay ignored, as under
/// nohup. If a mapped file shrinks, the program says so in one line and ends with code 3.
void remove_files_when_ended();

/// The same for Ctrl-C. Call it in commands that write files and do not call catch_interrupts.
void remove_files_when_interrupted();

/// From now on the first Ctrl-C only sets `interrupted`; the second ends the program. If Ctrl-C was ignored when the program started, as in
/// a background job of a shell, it stays ignored.
void catch_interrupts();

/// True after the first Ctrl-C.
bool interrupted();

/// Clears `interrupted`; the next Ctrl-C counts as the first.
void forget_interrupt();

/// Stops a step between two layers after a Ctrl-C.
struct ends_when_interrupted final : step_observer {
  bool stops() override { return interrupted(); }
};

}  // namespace program
}  // namespace lazyprune
