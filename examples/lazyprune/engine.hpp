// SPDX-License-Identifier: MIT
// A model loaded into the backend that was chosen at run time.
#pragma once

#include <memory>
#include <string_view>

#include "commands.hpp"

#include <lazyprune/io/checkpoint.hpp>
#include <lazyprune/model/generator.hpp>
#include <lazyprune/model/random_source.hpp>

class engine {
 public:
  virtual ~engine() = default;

  /// See lazyprune::generate.
  virtual lazyprune::generation generate(lazyprune::any_session& session, std::span<const lazyprune::token_id> prompt,
                                         const lazyprune::generation_options& options) = 0;
  virtual const lazyprune::model_config& config() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  /// From the next generation on. 0: all that the process may use.
  virtual void use_threads(int threads) = 0;
  virtual int threads() const = 0;
};

/// Throws `error` where there is no such backend here, or it does not compute in that type.
void check(const backend_flags& flags);

/// "avx2_fma", ...; "generic" for the reference backend: what the arithmetic is compiled for.
std::string_view isa_of(const backend_flags& flags);

/// Draws a bar on stderr while it loads.
std::unique_ptr<engine> load_engine(const backend_flags& flags, const lazyprune::checkpoint& source);
std::unique_ptr<engine> load_engine(const backend_flags& flags, const lazyprune::model_config& config,
                                    const lazyprune::random_source& source);
