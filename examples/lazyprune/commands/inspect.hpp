// SPDX-License-Identifier: MIT
// lazyprune inspect: what a model directory holds, and the memory that a context takes.
#pragma once

#include <cstddef>

#include "commands/flags.hpp"

namespace lazyprune {
namespace program {

struct inspect_flags {
  model_flags model;
  std::size_t context = 0;
  bool json = false;
};

/// Returns the exit code.
int inspect(const inspect_flags& flags);

}  // namespace program
}  // namespace lazyprune
