// SPDX-License-Identifier: MIT
// lazyprune run --questions: many questions about one document. The common prefix of all prompts is read once, and each question is
// answered from a fork of this prefix.
#pragma once

#include <string>

#include "commands/run.hpp"

namespace lazyprune {
namespace program {

/// Returns the exit code.
int run_questions(const run_flags& flags, const std::string& document, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
