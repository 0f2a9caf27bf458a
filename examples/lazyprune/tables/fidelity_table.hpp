// SPDX-License-Identifier: MIT
// Writes the table of `fidelity`: how close a pruned model stays to the dense one on texts.
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
  std::string method{};            // "lazyllm@3+5"; empty: the policy comes from pruning flags
  std::optional<double> budget{};  // the method's budget
  fidelity_summary summary;
};

/// The table for JSON and CSV, with these keys in this order:
/// - text, policy, method and budget (both null if the policy comes from pruning flags), texts, steps, prompt_tokens
/// - agreement (0 to 1), kl (nats), dense_perplexity, perplexity; each also has KEY_ci95 [low, high]
/// - equal_texts: the share (0 to 1) of the texts that both models continue with the same greedy text
/// - parted_at: the first step, from 0, at which the greedy texts differ, and with several texts the earliest of these steps. It is null if
///   no greedy texts differ
/// - rows (share of the dense model's rows in the prefill), ttft_s, dense_ttft_s, speedup_ttft
table table_of(std::span<const fidelity_entry> entries);

/// The Markdown table for people. Beside each mean stands half the width of its interval. Perplexities stand alone, because their intervals
/// are not symmetric. If methods are compared, the table names them, and has only the lines that are over all texts.
std::string to_markdown(std::span<const fidelity_entry> entries);

}  // namespace program
}  // namespace lazyprune
