// SPDX-License-Identifier: MIT
// How near a pruned model stays to the dense one on texts, written down.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tables/table.hpp"

#include <lazyprune/eval/fidelity.hpp>

namespace lazyprune {
namespace program {

/// A line of the table.
struct fidelity_entry {
  std::string method{};            // "lazyllm@3+5"; empty: flags made the policy
  std::optional<double> budget{};  // of a method
  fidelity_summary summary;
};

/// Keys: text, policy, method and budget (null: flags made the policy), texts, steps, prompt_tokens; agreement (0 to 1), kl (nats),
/// dense_perplexity and perplexity, each with its KEY_ci95 [low, high]; equal_texts (0 to 1), parted_at (the step, from 0, at which greedy
/// texts part, of several the earliest; null: nowhere); rows (share of the dense model's in the prefill), ttft_s, dense_ttft_s,
/// speedup_ttft.
table table_of(std::span<const fidelity_entry> entries);

/// The table for people has means with half the width of their intervals; perplexities, whose intervals lie askew, without. Where methods
/// are compared it names them, and has each one's line of all texts alone.
std::string to_markdown(std::span<const fidelity_entry> entries);

}  // namespace program
}  // namespace lazyprune
