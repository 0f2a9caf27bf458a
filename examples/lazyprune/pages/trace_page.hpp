// SPDX-License-Identifier: MIT
// Writes a trace as one self-contained HTML page: layers down, tokens across, and a slider for the steps. It shows which tokens were
// computed, revived, attended to or left out at each layer of each step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lazyprune/session/trace.hpp>

namespace lazyprune {
namespace program {

/// The content of the page. Everything but the steps may be empty. Texts may hold any bytes.
struct trace_document {
  std::vector<step_trace> steps;
  std::vector<std::string> token_texts;  // by position: prompt and generated tokens; missing ones are shown as ids
  std::string title;
  std::string model;
  std::string policy;                                      // the pruning flags
  std::string answer;                                      // the generated text
  std::vector<std::pair<std::string, std::string>> facts;  // label and value, for the header: times, memory, ...
  std::vector<std::string> next_texts;  // by step: the text of step_trace::next; if missing, the text of a token with the same id
  bool pruned_is_lost = false;          // true: the policy has no store
};

/// Writes the whole page. The trace must be one that `read_trace` would accept. Throws `error` if it has no steps or no layers.
std::string trace_page(const trace_document& document);

}  // namespace program
}  // namespace lazyprune
