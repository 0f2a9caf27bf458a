// SPDX-License-Identifier: MIT
// lazyprune calibrate: finds the heads of a model whose attention shows which blocks of a prompt matter, and writes them to a pruning file.
#pragma once

#include <cstddef>
#include <string>

#include "commands/flags.hpp"

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct calibrate_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;  // samples, or texts; at most questions.texts.prompts of them are read
  std::size_t block = 16;    // tokens in a block
  std::size_t probes = 0;    // of a stage; 0: the fewest within 0.01 of the best recall, at most 32
  std::string out;           // the file to write
};

/// Returns the exit code.
int calibrate(const calibrate_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
