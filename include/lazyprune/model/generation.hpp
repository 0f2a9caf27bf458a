// SPDX-License-Identifier: MIT
// What a caller asks of a generation, and what it gets back. Neither needs the model: generator.hpp does the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/observer.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/session/any_session.hpp>
#include <lazyprune/session/statistics.hpp>
#include <lazyprune/session/trace.hpp>

namespace lazyprune {
inline namespace v0 {

enum class finish_reason : std::uint8_t { eos, stop, length };

constexpr std::string_view name_of(finish_reason reason) {
  return reason == finish_reason::eos ? "eos" : reason == finish_reason::stop ? "stop" : "length";
}

struct generation_options {
  std::size_t max_new = 64;   // tokens to generate
  std::size_t context = 0;    // longest sequence; 0: the model's. A session's limit is one, too
  std::size_t expected = 0;   // how long the text will get in all, where that is known: sequence::expect; 0: context, or what max_new says
  std::size_t chunk = 0;      // so many tokens of the prompt are read at a time, and the last ones up to two more; 0: all
  std::size_t speculate = 0;  // tokens a step after the prompt reads at most: the last one and guesses at those to come; 0: it alone
  sampling sampler{};
  bool ignore_eos = false;
  std::vector<token_id> eos{};                              // tokens that end the text, beside those of the model's config
  std::vector<token_id> force{};                            // teacher: so many steps, each of these in the place of the token generated
  bool trace = false;                                       // record a step_trace for each step
  bool trace_logits = false;                                // and the logits in it
  std::function<void(std::span<const float>)> on_logits{};  // called with those of each token, while no clock runs
  std::function<void(const any_session&)> on_step{};        // called after each step, while no clock runs
  std::function<bool(token_id)> on_token{};                 // called with each token but a last EOS; false ends the text ("stop")
  step_observer* observer = nullptr;                        // told of each step; ends the text where it stops one ("stop")
};

struct generation {
  std::vector<token_id> tokens;  // generated, EOS included where it came
  finish_reason reason = finish_reason::length;
  double prefill_seconds = 0;  // time to first token: from ids ready to the first token chosen
  double decode_seconds = 0;   // of the steps after it
  std::size_t decode_steps = 0;
  std::size_t drafted = 0;   // tokens guessed
  std::size_t accepted = 0;  // guesses that were right: each step of decode_steps gives one token, and these
  statistics cost;           // of the sequence, earlier turns included
  double share_prompt = 0;   // prompt tokens and layers computed by the end, of all (the paper's Table 2)
  memory_use memory;
  step_seconds parts;  // of the prefill
  std::vector<step_trace> trace;
};

}  // namespace v0
}  // namespace lazyprune
