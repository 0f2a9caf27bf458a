// SPDX-License-Identifier: MIT
// lazyprune search: the stages that prune most at a loss of score that can be borne.
#pragma once

#include <cstddef>
#include <string>

#include "commands/flags.hpp"
#include "questions/method.hpp"

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct search_flags {
  model_flags model;
  backend_flags backend;
  question_flags questions;
  kept_tokens kept;
  policy_spec parts;      // of all schedules' policy
  std::string directory;  // for the results
  bool resume = false;
  std::size_t jobs = 1;         // samples at once
  double max_loss = 1;          // points of score
  bool certain = false;         // by the end of the loss's interval
  std::size_t tries = 100;      // schedules at most
  double minutes = 0;           // after which no schedule is begun; 0: no end
  std::size_t most_stages = 0;  // of a schedule; 0: any number
};

/// Returns the exit code.
int search(const search_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
