// SPDX-License-Identifier: MIT
// What came of one generation, for people and for machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lazyprune/model/generation.hpp>

namespace lazyprune {
namespace program {

/// What answers to several prompts have in common: what was read once for all of them.
struct shared_part {
  std::size_t tokens = 0, rows = 0;
  double seconds = 0;
};

/// A prompt was read so many tokens at a time, in so many layers, before the query's step.
struct chunk_reading {
  std::size_t tokens;
  layer_id layers;
};

/// Seconds from the ids of a prompt to tokens of its answer.
struct answer_seconds {
  double first_token, last_token;
};

struct outcome {
  generation run;
  std::optional<std::string> text;  // none: the model has no tokenizer
  std::size_t prompt_tokens = 0;
  std::size_t weight_bytes = 0;
  std::string policy_name;
  std::string policy_text;
  std::string_view cut_by{};  // what ended the answer before the model did; empty: nothing
  std::optional<chunk_reading> chunks{};
  std::optional<answer_seconds> dense_guess{};  // the dense model's, by the cost model
  bool speculates = false;                      // drafts are read with the tokens
  std::optional<shared_part> shared{};          // the run has read the rest of the prompt
  std::optional<std::size_t> kept{};            // tokens of the prompt that earlier turns of a conversation have read

  answer_seconds seconds() const { return {run.prefill_seconds, run.prefill_seconds + run.decode_seconds}; }
  std::size_t peak_bytes() const { return weight_bytes + run.memory.total(); }
  double prefill_rate() const { return rate(prompt_tokens - (shared ? shared->tokens : 0) - kept.value_or(0), run.prefill_seconds); }
  double decode_rate() const { return rate(run.decode_steps + run.accepted, run.decode_seconds); }

 private:
  static double rate(std::size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0; }
};

/// What the run's JSON begins with.
struct run_heading {
  std::string model, backend, isa;
  std::string device;  // the GPU that computed; empty: the processor did
  std::uint64_t seed;
};

/// One line of JSON: the run, and in its key `dense` the dense one where there is one.
std::string to_json(const run_heading& heading, const outcome& result, const std::optional<outcome>& dense);

/// Some lines on stderr: the run, and the dense one beside it where there is one. `verbose`: with a table of rows and memory, as it is
/// beside a dense run.
void report(const outcome& result, const std::optional<outcome>& dense, bool verbose);

/// A line on stderr, after one turn of many.
void report_turn(const outcome& turn);

/// An answer to one of several prompts that begin alike, and the dense model's where it was asked, too.
struct question_outcome {
  outcome pruned;
  std::optional<outcome> dense;
};

/// Some lines on stderr: what was shared, a line for each question answered, and how many of those `asked` they are.
void report(std::span<const question_outcome> answers, std::size_t asked);

}  // namespace program
}  // namespace lazyprune
