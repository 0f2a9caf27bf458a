// SPDX-License-Identifier: MIT
// lazyprune run: generates text, and says what it took.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct run_flags {
  model_flags model;
  backend_flags backend;
  policy_spec policy;
  std::optional<std::string> prompt, file;
  std::vector<token_id> ids;
  std::size_t predict = 64;
  std::size_t context = 0;
  std::size_t chunk = 0;      // tokens of the prompt to read at a time; 0: all
  std::size_t speculate = 0;  // tokens a step reads at most; 0: one, without drafts
  std::string questions;      // a file of them about the document that `file` names; empty: `file` has a prompt
  bool chat = false;          // a prompt is a user's turn; without any, turns are read from stdin
  std::string messages;       // a file with a whole chat; empty: none
  std::optional<std::string> system;
  lazyprune::sampling sampling;
  bool ignore_eos = false;
  std::vector<std::string> stops;
  std::vector<token_id> force;
  bool compare = false, json = false, trace_logits = false;
  std::string trace;
};

/// Returns the exit code.
int run(const run_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
