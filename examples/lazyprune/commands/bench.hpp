// SPDX-License-Identifier: MIT
// lazyprune bench: measures prefill and decode rates, dense and pruned side by side, and how much of the predicted speedup is
// reached.
#pragma once

#include <cstddef>
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

struct bench_flags {
  model_flags model;
  std::string shape;  // name of the shape of random weights; empty: `model` has the weights
  backend_flags backend;
  policy_spec policy;
  std::vector<std::size_t> prompts{512, 2048};
  std::size_t predict = 64;
  std::vector<int> threads{0};
  std::vector<std::size_t> sequences{1};  // numbers of sequences in a batch
  std::size_t repetitions = 5;
  bool peak = false;
  bool parts = false;  // show the parts of each prefill; also measures the peaks, if they are known
  bool no_warmup = false;
  bool after_each = false;  // generate after each prompt, not only after the longest
  table_format output = table_format::md;
};

/// Returns the exit code.
int bench(const bench_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
