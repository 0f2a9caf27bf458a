// SPDX-License-Identifier: MIT
// The options and the result of a generation. The functions that generate are in generator.hpp.
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
  std::size_t context = 0;    // longest sequence, in tokens; 0: the model's limit. The session's limit applies too
  std::size_t expected = 0;   // sequence::expect gets this or, if greater, `context` (without one: the length after max_new tokens)
  std::size_t chunk = 0;      // prompt tokens read at a time; the last chunk may have up to two more; 0: the whole prompt
  std::size_t speculate = 0;  // most tokens that a decode step reads: the last token, then drafted ones; 0: no drafts
  sampling sampler{};
  bool ignore_eos = false;
  std::vector<token_id> eos{};                              // tokens that end the sequence, besides model_config::eos
  std::vector<token_id> force{};                            // teacher forcing: these tokens replace the generated ones
  bool trace = false;                                       // record a step_trace for each step
  bool trace_logits = false;                                // record a step_trace with logits for each step
  std::function<void(std::span<const float>)> on_logits{};  // called with the logits for each token, outside the measured time
  std::function<void(const any_session&)> on_step{};        // called after the prefill and each decode step, outside the measured time
  std::function<bool(token_id)> on_token{};                 // called with each token except a final EOS; false ends the sequence ("stop")
  step_observer* observer = nullptr;                        // sees each step; if it stops a step, the sequence ends ("stop")
};

struct generation {
  std::vector<token_id> tokens;  // generated, including a final EOS
  finish_reason reason = finish_reason::length;
  double prefill_seconds = 0;  // time to first token: from token ids to the first chosen token
  double decode_seconds = 0;   // time of all decode steps
  std::size_t decode_steps = 0;
  std::size_t drafted = 0;   // drafted tokens
  std::size_t accepted = 0;  // drafted tokens that were right; each decode step yields one more token besides them
  statistics cost;          // statistics of the whole sequence, including earlier turns, without a prompt or a decode step that was stopped
  double share_prompt = 0;  // share of the (prompt token, layer) pairs that have keys and values at the end (the paper's Table 2)
  memory_use memory;
  step_seconds sections;  // times of the prefill's sections
  std::vector<step_trace> trace;
};

}  // namespace v0
}  // namespace lazyprune
