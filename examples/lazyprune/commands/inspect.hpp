// SPDX-License-Identifier: MIT
// lazyprune inspect: shows what a model holds, the memory that a context takes, and where a policy first prunes.
#pragma once

#include <cstddef>

#include "commands/flags.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct inspect_flags {
  model_flags model;
  policy_spec policy;
  std::size_t context = 0;
  bool json = false;
};

/// Returns the exit code.
int inspect(const inspect_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
