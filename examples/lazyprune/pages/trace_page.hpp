// SPDX-License-Identifier: MIT
// A trace as one HTML page that needs nothing else: layers down, tokens across, a slider over the steps. It shows which tokens were
// computed, revived, attended to or left out, at each layer of each step.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lazyprune/session/trace.hpp>

namespace lazyprune {
namespace program {

/// What the page shows. All but the steps may be empty; texts may hold any bytes.
struct trace_document {
  std::vector<step_trace> steps;
  std::vector<std::string> token_texts;  // by position: prompt and generated tokens; ids stand in for those that are missing
  std::string title;
  std::string model;
  std::string policy;                                      // the flags that make it
  std::string answer;                                      // the generated text
  std::vector<std::pair<std::string, std::string>> facts;  // label and value, for the header: times, memory, ...
  std::vector<std::string> next_texts;  // by step: the text of `next`; where missing, that of an equal id among the tokens
  bool pruned_is_lost = false;          // the policy keeps no store
};

/// The whole page. The trace must be one that `read_trace` would accept; throws `error` where it has no steps or layers.
std::string trace_page(const trace_document& document);

}  // namespace program
}  // namespace lazyprune
