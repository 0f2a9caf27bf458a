// SPDX-License-Identifier: MIT
// A model loaded into the backend that was chosen at run time. This header includes no backend, transformer, weights or tokenizer, so files
// that use it compile fast.
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/flags.hpp"
#include "models/model_choice.hpp"

#include <lazyprune/backend/execution.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/model/cost_model.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
inline namespace v0 {
class random_source;
}  // namespace v0

namespace program {

/// The result of run_batch: the tokens, and what they cost.
struct batch_run {
  double prefill_seconds = 0;                            // from the prompts' token ids to the first generated token of every sequence
  double decode_seconds = 0;                             // all decode steps together
  step_seconds sections{};                               // the prefill's time by section
  std::vector<std::vector<std::size_t>> prefill_rows{};  // (sequences, layers): statistics::prefill_rows
  std::size_t scored_pairs = 0;                          // of the prefill: layer_end::scored_pairs, summed over layers and sequences
  std::vector<layer_work> step_layers{};                 // (steps, layers): of the decode steps
  memory_use memory{};                                   // peak, all sequences together
  std::vector<std::vector<token_id>> tokens{};           // (sequences, steps + 1): generated
};

/// The peak rates of a machine.
struct peak_rates {
  std::string_view instruction;  // the one that computes matrix products
  double arithmetic;             // operations/s of that instruction
  double reading;                // B/s of memory reads
};

/// The self-information of each prompt token (lazyprune::self_information), and the peak memory of the pass that computed it.
struct scored_prompt {
  std::vector<double> information;  // (prompt)
  std::size_t bytes;                // the peak memory without the weights
};

/// A prefix that several sequences share, read once. It must not outlive the engine.
class prompt_prefix {
 public:
  virtual ~prompt_prefix() = default;

  /// The number of rows computed for the prefix.
  virtual std::size_t rows() const = 0;
  /// Frees the scratch memory; the next `generate` allocates it again. Call this when many prefixes are kept at once.
  virtual void release_scratch() = 0;
  /// Generates in a fork of the prefix under the session's policy (sequence::fork): reads `rest`, the tokens of the prompt after the
  /// prefix, then generates (see lazyprune::generate). The cost leaves out the prefix's rows, but `dense_rows` and `share_prompt` cover the
  /// whole prompt.
  virtual generation generate(any_session session, std::span<const token_id> rest, const generation_options& options) = 0;
};

/// One of several sequences that are generated together. If `after` is set, the session takes over that prefix (sequence::fork), and
/// `prompt` holds the tokens after it. The cost then covers the whole prompt, except for the seconds spent on the prefix.
struct sequence_request {
  any_session session;
  std::span<const token_id> prompt;
  const generation_options& options;
  const prompt_prefix* after = nullptr;  // a prefix that the same engine read, or null
};

/// A sequence that grows turn by turn. It must not outlive the engine.
class conversation {
 public:
  virtual ~conversation() = default;

  /// The tokens that were read. The last generated token is not among them: no step has read it.
  virtual std::span<const token_id> tokens() const = 0;
  /// Keeps the first `tokens` tokens, at most as many as were read, and forgets the others.
  virtual void truncate(std::size_t tokens) = 0;
  /// Reads `prompt` and generates an answer; see lazyprune::generate. The cost covers this turn alone.
  virtual generation go_on(std::span<const token_id> prompt, const generation_options& options) = 0;
};

/// An answer that an answer_batch has ended.
struct ended_answer {
  std::size_t number;         // what `add` returned
  generation result;          // its cost leaves out the rows of cached tokens and those that another answer has paid, but `dense_rows` and
                              // `share_prompt` cover the whole prompt
  std::size_t cached_tokens;  // tokens of the prompt that were read earlier: their rows in the layers before the first pruning came from
                              // the cache, or the kept sequence of the conversation has them
  std::exception_ptr fault;   // set if a step of this answer or one of its callbacks threw
};

/// An earlier turn of a conversation, by positions in the prompt.
struct earlier_turn {
  std::size_t prompt_end;  // of the first token of its answer
  std::size_t answer_end;  // of the token after its answer
  friend bool operator==(const earlier_turn&, const earlier_turn&) = default;
};

/// A conversation that goes on in the sequence of its earlier turns, in which tokens may be pruned.
struct continued_conversation {
  std::vector<earlier_turn> turns{};
  std::string policy;  // names the policy; a sequence goes on only under its own policy
};

/// Answers that are generated together, and that come and go between steps (lazyprune::continuous_batch). Beginnings of their prompts are
/// kept for later prompts (lazyprune::prefix_cache). It must not outlive the engine.
class answer_batch {
 public:
  virtual ~answer_batch() = default;

  /// Adds an answer in a new sequence, and returns its number. Throws `error` if the prompt or the options cannot be used.
  virtual std::size_t add(any_session session, std::vector<token_id> prompt, generation_options options) = 0;
  /// Like `add`, for the next turn of a conversation. `prompt` has all turns. If the sequence of the earlier turns is kept, it goes on.
  /// Otherwise a new sequence plays the earlier turns again: it reads their prompts, and generates the answers that `prompt` has. So the
  /// new answer is the same.
  virtual std::size_t add(any_session session, std::vector<token_id> prompt, generation_options options,
                          const continued_conversation& conversation) = 0;
  /// Like `add`, for another answer to the prompt of answer `number`, under the same policy. It shares the reading of the prompt if
  /// `number` has not read it yet (lazyprune::continuous_batch::add_alternative).
  virtual std::size_t add_alternative(std::size_t number, any_session session, std::vector<token_id> prompt,
                                      generation_options options) = 0;
  /// Ends an answer at the next step, with the reason `stop`.
  virtual void stop(std::size_t number) = 0;
  /// The answers whose prompts were read.
  virtual std::size_t generating() const = 0;
  /// The tokens of prompts that steps have still to read.
  virtual std::size_t unread() const = 0;
  /// The memory of the kept beginnings and conversations.
  virtual std::size_t cache_bytes() const = 0;
  /// Writes the kept beginnings, but not the conversations, to a file. `identity` names everything that their rows depend on.
  virtual void save_cache(const std::filesystem::path& file, std::string_view identity) = 0;
  /// Reads beginnings that `save_cache` wrote. Returns false, and keeps nothing, if they were saved under another identity. Throws `error`
  /// if the file was not written by `save_cache`, or is damaged.
  virtual bool load_cache(const std::filesystem::path& file, std::string_view identity) = 0;
  /// Runs one step, which reads about `prompt_tokens` tokens of prompts at most. Returns the answers that have ended.
  virtual std::vector<ended_answer> step(std::size_t prompt_tokens) = 0;
};

class engine {
 public:
  virtual ~engine() = default;

  /// Generates in a new sequence; see lazyprune::generate.
  virtual generation generate(any_session session, std::span<const token_id> prompt, const generation_options& options) = 0;
  /// Reads the prompt once and generates several answers to it; see lazyprune::generate_alternatives.
  virtual std::vector<generation> generate_alternatives(any_session session, std::span<const token_id> prompt,
                                                        std::span<const generation_options> options) = 0;
  /// Generates in one new sequence per request. The decode steps of all requests run as one batch; see lazyprune::generate.
  virtual std::vector<generation> generate(std::vector<sequence_request> requests) = 0;
  /// Reads a prefix that several sequences will share, `options.chunk` tokens at a time. Returns null if the observer stopped the step.
  virtual std::unique_ptr<prompt_prefix> read(any_session session, std::span<const token_id> tokens, const generation_options& options) = 0;
  /// Begins a conversation, without any turn yet.
  virtual std::unique_ptr<conversation> begin(any_session session) = 0;
  /// Begins a batch without any answer yet, which keeps at most `cache_bytes` of beginnings.
  virtual std::unique_ptr<answer_batch> begin_batch(std::size_t cache_bytes) = 0;
  /// Generates in one new sequence per prompt, one batch per step; see run_batch.
  virtual batch_run generate_together(std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts, std::size_t steps,
                                      const std::function<void(step_section)>& wait = {}) = 0;
  /// Computes the self-information of each prompt token in a dense pass. `expected`: see sequence::expect.
  virtual scored_prompt self_information(std::span<const token_id> prompt, std::size_t expected) = 0;
  virtual const model_config& config() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  /// Bytes of the weights that a step of one token reads.
  virtual std::size_t step_weight_bytes() const = 0;
  /// Bytes of the keys and values of one token in all layers.
  virtual std::size_t kv_token_bytes() const = 0;
  /// Bytes of the keys and values of one token in one layer: the mean over the layers, rounded up. Their types may differ.
  std::size_t kv_row_bytes() const;
  /// Sets the number of threads from the next generation on; 0: all that the process may use.
  virtual void use_threads(int threads) = 0;
  virtual int threads() const = 0;
  /// The peak rates with threads() threads; nullopt if they are not known.
  virtual std::optional<peak_rates> peaks() const = 0;
  /// If operations return before they are done: a function that blocks until all are done. Otherwise null.
  virtual std::function<void()> waiting() const = 0;
};

/// Throws `error` if this program lacks the backend, if the backend does not compute in the type, or if the processor lacks the instruction
/// set that LAZYPRUNE_ISA names. With the cuda backend, also throws `error` if there is no usable GPU or a number of threads is set.
void check(const backend_flags& flags);

/// Returns the type that --kv names, or nullopt if it names none.
std::optional<dtype> kv_type_of(const backend_flags& flags);

/// Returns the instruction set of the matrix products: "avx2", ...; "sm_90", ... on a GPU; "generic" for the reference backend. Throws
/// `error` if the processor lacks the instruction set that LAZYPRUNE_ISA names, or if there is no usable GPU.
std::string_view isa_of(const backend_flags& flags);

/// Returns the name of the GPU, its memory and its architecture; empty for backends on the processor.
std::string device_of(const backend_flags& flags);

/// The names of the instruction sets that LAZYPRUNE_ISA may hold on this processor.
std::vector<std::string_view> isas_here();

/// The memory of a context on the cpu backend, in bytes.
struct context_memory {
  std::size_t kv_row;      // keys and values of one token in one layer
  std::size_t kv_token;    // keys and values of one token in all layers
  std::size_t kv;          // keys and values of the whole context
  std::size_t stored_row;  // one row in the store (hidden state)
};

/// `kv` is the type of keys and values, and `stored` that of stored rows. Throws `error` if the config's numbers are so large that the
/// bytes do not fit into std::size_t.
context_memory memory_of(const model_config& config, dtype kv, dtype stored, std::size_t context);

/// Loads a model from its files, or makes one of random weights. Prints the name of the GPU, if one computes, and a progress bar on stderr.
std::unique_ptr<engine> load_engine(const backend_flags& flags, const opened_model& source);
std::unique_ptr<engine> load_engine(const backend_flags& flags, const model_config& config, const random_source& source);

}  // namespace program
}  // namespace lazyprune
