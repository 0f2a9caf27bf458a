// SPDX-License-Identifier: MIT
// lazyprune search: finds the stages that compute the fewest rows and lose at most `max_loss` points of score.
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
  question_flags questions{.texts = {.prompts = 60}};
  kept_tokens kept;
  policy_spec parts;      // the policy without its stages, the same for all schedules
  std::string directory;  // the folder for the results
  bool resume = false;
  std::size_t jobs = 1;         // samples at a time
  double max_loss = 1;          // points of score
  bool certain = false;         // true: max_loss bounds the upper end of the loss's 95 % interval; false: the mean loss
  std::size_t tries = 100;      // most schedules to try
  double minutes = 0;           // no schedule is begun after this time; 0: no limit
  std::size_t most_stages = 0;  // the most stages in a schedule; 0: any number
};

/// Returns the exit code.
int search(const search_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
