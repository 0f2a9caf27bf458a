// SPDX-License-Identifier: MIT
// lazyprune fidelity: how near a pruned model, or several, stay to the dense one, on texts without labels. Of each text and setting the
// prompt is read once, and its time is of that one reading.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "questions/method.hpp"
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
  policy_spec policy;                 // with methods: the tokens that all of them keep
  method_flags methods{};             // in the place of a policy; none named: none
  std::vector<std::string> texts;     // files
  std::optional<std::string> prefix;  // of a text, what is the prompt: a share, or tokens; none: 0.5
  std::size_t places = 0;             // of each text, compared as texts of their own; 0: its beginning alone
  std::size_t predict = 0;            // tokens after it; 0: 128
  std::size_t context = 0;            // 0: the model's
  table_format output = table_format::md;

  bool compares_methods() const { return !methods.names.empty() || !methods.variants.empty(); }
};

/// Returns the exit code.
int fidelity(const fidelity_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
