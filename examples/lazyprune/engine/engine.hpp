// SPDX-License-Identifier: MIT
// A model loaded into the backend that was chosen at run time.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>

namespace lazyprune {
namespace program {

/// What a machine can do at most.
struct peak_rates {
  std::string_view instruction;  // of the products
  double arithmetic;             // its FLOP/s
  double reading;                // of memory, B/s
};

/// What a prompt tells, token by token (lazyprune::self_information), and the memory that it took to find out.
struct scored_prompt {
  std::vector<double> information;
  lazyprune::memory_use memory;
};

class engine {
 public:
  virtual ~engine() = default;

  /// Of a new sequence; see lazyprune::generate.
  virtual lazyprune::generation generate(lazyprune::any_session session, std::span<const lazyprune::token_id> prompt,
                                         const lazyprune::generation_options& options) = 0;
  /// By a dense pass over the prompt.
  virtual scored_prompt self_information(std::span<const lazyprune::token_id> prompt) = 0;
  virtual const lazyprune::model_config& config() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  /// Of the weights, what a step of one token reads.
  virtual std::size_t step_weight_bytes() const = 0;
  /// What keys and values of one token take in one layer.
  virtual std::size_t kv_row_bytes() const = 0;
  /// From the next generation on. 0: all that the process may use.
  virtual void use_threads(int threads) = 0;
  virtual int threads() const = 0;
  /// Measured now, with as many threads. None where the backend has no such measurements.
  virtual std::optional<peak_rates> measure_peaks() const = 0;
};

/// Throws `error` where there is no such backend here, it does not compute in that type, or not with what LAZYPRUNE_ISA names.
void check(const backend_flags& flags);

/// What the products are computed with: "avx2", ...; "generic" for the reference backend. Throws `error` where the processor lacks what
/// LAZYPRUNE_ISA names.
std::string_view isa_of(const backend_flags& flags);

/// What LAZYPRUNE_ISA can name on this processor.
std::vector<std::string_view> isas_here();

/// Draws a bar on stderr while it loads.
std::unique_ptr<engine> load_engine(const backend_flags& flags, const lazyprune::checkpoint& source);
std::unique_ptr<engine> load_engine(const backend_flags& flags, const lazyprune::model_config& config,
                                    const lazyprune::random_source& source);

}  // namespace program
}  // namespace lazyprune
