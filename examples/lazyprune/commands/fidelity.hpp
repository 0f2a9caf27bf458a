// SPDX-License-Identifier: MIT
// lazyprune fidelity: how near a pruned model stays to the dense one, on texts without labels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "tables/table.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct fidelity_flags {
  model_flags model;
  backend_flags backend;
  policy_spec policy;
  std::vector<std::string> texts;     // files
  std::optional<std::string> prefix;  // of a text, what is the prompt: a share, or tokens; none: 0.5
  std::size_t predict = 0;            // tokens after it; 0: 128
  std::size_t context = 0;            // 0: the model's
  std::string asked = "fidelity";     // how the command is spelled
  table_format output = table_format::md;
};

/// Returns the exit code.
int fidelity(const fidelity_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
