// SPDX-License-Identifier: MIT
// What came of one generation, for people and for machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <lazyprune/model/generator.hpp>

namespace lazyprune {
namespace program {

struct outcome {
  generation run;
  std::optional<std::string> text;  // none: the model has no tokenizer
  std::size_t prompt_tokens = 0;
  std::size_t weight_bytes = 0;
  std::string policy_name;
  std::string policy_text;

  std::size_t peak_bytes() const { return weight_bytes + run.memory.total(); }
  double prefill_rate() const { return run.prefill_seconds > 0 ? static_cast<double>(prompt_tokens) / run.prefill_seconds : 0.0; }
  double decode_rate() const { return run.decode_seconds > 0 ? static_cast<double>(run.decode_steps) / run.decode_seconds : 0.0; }
};

/// What the run's JSON begins with.
struct run_heading {
  std::string model, backend, isa;
  std::uint64_t seed;
};

/// One line of JSON: the run, and in its key `dense` the dense one where there is one.
std::string to_json(const run_heading& heading, const outcome& result, const std::optional<outcome>& dense);

/// Some lines on stderr: the run, and the dense one beside it where there is one.
void report(const outcome& result, const std::optional<outcome>& dense);

}  // namespace program
}  // namespace lazyprune
