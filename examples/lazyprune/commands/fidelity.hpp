// SPDX-License-Identifier: MIT
// lazyprune fidelity: measures how near one or several pruned models stay to the dense model, on texts without labels. It reads each prompt
// once under each setting, and reports the time of that one reading.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "questions/method.hpp"
#include "questions/run_record.hpp"
#include "tables/table.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
struct text_fidelity;
}  // namespace v0

namespace program {

struct fidelity_flags {
  model_flags model;
  backend_flags backend;
  policy_spec policy;                 // if methods are compared, only its keep_first and keep_last count
  method_flags methods{};             // instead of one policy; may be empty
  std::vector<std::string> texts;     // the files with the texts
  std::optional<std::string> prefix;  // how much of a text is the prompt: a share, or a number of tokens; none: 0.5
  std::size_t places = 0;             // how many passages of each text to compare, each like a text of its own; 0: only the beginning
  std::size_t predict = 0;            // tokens to compare after the prompt; 0: 128
  std::size_t context = 0;            // 0: the model's limit
  table_format output = table_format::md;
  std::string directory{};  // the folder for the results; empty: none
  bool resume = false;
  part_flags parts{};

  bool compares_methods() const { return !methods.names.empty() || !methods.variants.empty(); }
};

/// Prints the table of a fidelity: for each setting an entry for each text and, if there are several texts, an entry for all texts
/// together.
void show_fidelity(const run_record& record, const std::function<const text_fidelity*(const run_place&)>& find, table_format format);

/// Returns the exit code.
int fidelity(const fidelity_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
