// SPDX-License-Identifier: MIT
// The result of one generation, as text for people and as JSON.
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

/// The common prefix of several prompts, which was read once for all of them.
struct shared_prefix {
  std::size_t tokens = 0, rows = 0;
  double seconds = 0;
};

/// How the prompt was read in chunks before the step that has the query: `tokens` tokens at a time, through the first `layers` layers.
struct chunk_reading {
  std::size_t tokens;
  layer_id layers;
};

/// Seconds from the ids of a prompt to the first and the last token of its answer.
struct answer_seconds {
  double first_token, last_token;
};

struct outcome {
  generation run;
  std::optional<std::string> text;  // none: the model has no tokenizer
  std::size_t prompt_tokens = 0;
  std::size_t weight_bytes = 0;
  std::string policy_name;
  std::string policy_line;    // short, for people
  std::string policy_text;    // all flags
  std::string_view cut_by{};  // what cut the answer short before the model ended it; empty: nothing did
  std::optional<chunk_reading> chunks{};
  std::optional<answer_seconds> dense_guess{};  // the dense model's seconds, estimated by the cost model
  bool speculates = false;                      // steps also read drafts (guessed tokens)
  bool prunes_steps = false;                    // the policy can also prune in decode steps
  std::size_t least_tokens = 0;                 // while fewer tokens are known, the policy prunes nothing
  std::optional<shared_prefix> shared{};        // the prefix; this run read only the tokens after it
  std::optional<std::size_t> kept{};            // tokens of the prompt that earlier turns of the conversation read

  answer_seconds seconds() const { return {run.prefill_seconds, run.prefill_seconds + run.decode_seconds}; }
  std::size_t peak_bytes() const { return weight_bytes + run.memory.total(); }
  double prefill_rate() const { return rate(prompt_tokens - (shared ? shared->tokens : 0) - kept.value_or(0), run.prefill_seconds); }
  double decode_rate() const { return rate(run.decode_steps + run.accepted, run.decode_seconds); }

 private:
  static double rate(std::size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0; }
};

/// The keys with which the run's JSON begins.
struct run_heading {
  std::string model, backend, isa;
  std::string device;  // the GPU; empty: the processor computed
  std::uint64_t seed;
};

/// Returns one line of JSON with the run. The dense run, if there is one, is under the key `dense`.
std::string to_json(const run_heading& heading, const outcome& result, const std::optional<outcome>& dense);

/// Writes a report of a few lines on stderr. It compares the run with the dense run, if there is one. With `verbose` the report has all
/// flags of the policy. With `verbose` or a dense run it also has a table of rows and memory.
void report(const outcome& result, const std::optional<outcome>& dense, bool verbose);

/// Writes one line on stderr about a turn of a conversation.
void report_turn(const outcome& turn);

/// The answer to one of several prompts with a common prefix, and the dense model's answer, if the dense model was asked too.
struct question_outcome {
  outcome pruned;
  std::optional<outcome> dense;
};

/// Writes on stderr the size of the common prefix, one line per answer, and how many of the `asked` questions were answered. With `verbose`
/// it also writes all flags of the policy.
void report(std::span<const question_outcome> answers, std::size_t asked, bool verbose);

}  // namespace program
}  // namespace lazyprune
