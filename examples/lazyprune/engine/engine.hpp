// SPDX-License-Identifier: MIT
// A model loaded into the backend that was chosen at run time. Whoever includes this compiles no backend, transformer, weight or tokenizer.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/flags.hpp"
#include "models/model_choice.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/generation.hpp>
#include <lazyprune/session/any_session.hpp>

namespace lazyprune {
inline namespace v0 {
class random_source;
}  // namespace v0

namespace program {

/// What a batch took.
struct batch_run {
  double prefill_seconds = 0;                            // from ids ready to every sequence's first token chosen
  double decode_seconds = 0;                             // of the steps after it
  step_seconds parts{};                                  // of the prefill
  std::vector<std::vector<std::size_t>> prefill_rows{};  // (sequences, layers): statistics::prefill_rows
  double step_kv_rows = 0;                               // of keys and values that a later step reads, over layers and sequences
  memory_use memory{};                                   // of all sequences at once
  std::vector<std::vector<token_id>> tokens{};           // (sequences, steps + 1): generated
};

/// What a machine can do at most.
struct peak_rates {
  std::string_view instruction;  // of the products
  double arithmetic;             // its FLOP/s
  double reading;                // of memory, B/s
};

/// What a prompt tells, token by token (lazyprune::self_information), and the memory that it took to find out, the weights aside.
struct scored_prompt {
  std::vector<double> information;
  std::size_t bytes;
};

/// The beginning of some texts, read once. It must not outlive the engine.
class text_beginning {
 public:
  virtual ~text_beginning() = default;

  /// The rows that were computed for it.
  virtual std::size_t rows() const = 0;
  /// Gives back its scratch, which the next `generate` makes anew: where many beginnings are kept for others to go on from.
  virtual void release_scratch() = 0;
  /// Generates in a fork of it, after `rest` of the prompt; see lazyprune::generate. The rows of the beginning are left out of the cost;
  /// `dense_rows` and `share_prompt` are of the whole prompt.
  virtual generation generate(std::span<const token_id> rest, const generation_options& options) = 0;
};

/// One of some texts that are generated together. Where it goes on from a beginning, its session takes that over (sequence::fork), the
/// prompt is the rest, and the cost that of the whole, without the beginning's seconds.
struct text_request {
  any_session session;
  std::span<const token_id> prompt;
  const generation_options& options;
  const text_beginning* after = nullptr;  // of the same engine
};

/// A text that grows turn by turn. It must not outlive the engine.
class conversation {
 public:
  virtual ~conversation() = default;

  /// The tokens that were read; the last one generated was not.
  virtual std::span<const token_id> tokens() const = 0;
  /// Forgets the tokens from `tokens` <= those read on.
  virtual void truncate(std::size_t tokens) = 0;
  /// Reads on and answers; see lazyprune::generate. The cost is that of this turn.
  virtual generation go_on(std::span<const token_id> prompt, const generation_options& options) = 0;
};

class engine {
 public:
  virtual ~engine() = default;

  /// Generates in a new sequence; see lazyprune::generate.
  virtual generation generate(any_session session, std::span<const token_id> prompt, const generation_options& options) = 0;
  /// Generates several texts after one prompt, which is read once; see lazyprune::generate_alternatives.
  virtual std::vector<generation> generate_alternatives(any_session session, std::span<const token_id> prompt,
                                                        std::span<const generation_options> options) = 0;
  /// Generates in as many new sequences, the steps after the prompts together; see lazyprune::generate.
  virtual std::vector<generation> generate(std::vector<text_request> requests) = 0;
  /// Reads the beginning of some texts, as `options.chunk` says. Null where the observer stopped it.
  virtual std::unique_ptr<text_beginning> read(any_session session, std::span<const token_id> tokens,
                                               const generation_options& options) = 0;
  /// A conversation without a turn yet.
  virtual std::unique_ptr<conversation> begin(any_session session) = 0;
  /// Generates in as many new sequences as there are prompts, a batch a step; see run_batch.
  virtual batch_run generate_together(std::vector<any_session> sessions, std::span<const std::vector<token_id>> prompts, std::size_t steps,
                                      const std::function<void()>& wait = {}) = 0;
  /// Scores a prompt by a dense pass over it. `expected`: sequence::expect.
  virtual scored_prompt self_information(std::span<const token_id> prompt, std::size_t expected) = 0;
  virtual const model_config& config() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  /// The bytes of the weights that a step of one token reads.
  virtual std::size_t step_weight_bytes() const = 0;
  /// The bytes that keys and values of one token take in one layer.
  virtual std::size_t kv_row_bytes() const = 0;
  /// Uses so many threads from the next generation on; 0: all that the process may use.
  virtual void use_threads(int threads) = 0;
  virtual int threads() const = 0;
  /// With as many threads. None where nobody knows.
  virtual std::optional<peak_rates> peaks() const = 0;
  /// Where operations return before they are done: what waits until they are. Else null.
  virtual std::function<void()> waiting() const = 0;
};

/// Throws `error` where there is no such backend here, it does not compute in that type, or not with what LAZYPRUNE_ISA names.
void check(const backend_flags& flags);

/// What the products are computed with: "avx2", ...; "sm_90", ... on a GPU; "generic" for the reference backend. Throws `error` where the
/// processor lacks what LAZYPRUNE_ISA names, and where there is no such GPU.
std::string_view isa_of(const backend_flags& flags);

/// The name of the GPU that computes, its memory, and what it is built for; empty where the processor does.
std::string device_of(const backend_flags& flags);

/// What LAZYPRUNE_ISA can name on this processor.
std::vector<std::string_view> isas_here();

/// What a context takes on the cpu backend, in bytes.
struct context_memory {
  std::size_t kv_row;      // keys and values of one token in one layer
  std::size_t kv_token;    // of one token in all layers
  std::size_t kv;          // of the whole context
  std::size_t stored_row;  // one row that is put aside
};

/// Keys, values and stored rows are in bf16 where the weights are, else in f32. Throws `error` where a number is too large: a config may
/// have any.
context_memory memory_of(const model_config& config, bool bf16, std::size_t context);

/// Names the GPU that computes, and draws a bar while it loads, on stderr.
std::unique_ptr<engine> load_engine(const backend_flags& flags, const opened_model& source);
std::unique_ptr<engine> load_engine(const backend_flags& flags, const model_config& config, const random_source& source);

}  // namespace program
}  // namespace lazyprune
