// SPDX-License-Identifier: MIT
// Reads the JSON of a request for a completion, in the form of OpenAI's API (https://platform.openai.com/docs/api-reference).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/types.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
namespace program {

/// A request for one or several completions of a prompt.
struct completion_request {
  std::string model{};
  std::string messages{};               // /v1/chat/completions: a JSON list of messages, each of whose contents is a string, null or absent
  std::string tools{};                  // a JSON list of tools that the answer may call; empty: none
  std::optional<std::string> prompt{};  // /v1/completions: a text, or
  std::vector<token_id> ids{};          // token ids
  std::optional<std::size_t> predict{};                                    // most tokens to generate; none: the server decides
  sampling sampler{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};  // the defaults of the API
  std::optional<std::uint64_t> seed{};
  std::size_t choices = 1;
  std::vector<std::string> stops{};
  std::optional<std::size_t> top_logprobs{};  // how many of the likeliest tokens to name beside the log-probability of each token
  bool stream = false, stream_usage = false;
  bool dense = false;                    // "pruning": false
  std::optional<policy_spec> pruning{};  // "pruning": {...}; none: the policy of the server's flags
  bool show_kept = false;                // "pruning": {"show_kept": true}
  bool continues = false;                // "pruning": {"continue": true}
};

/// Reads the body of a request to /v1/chat/completions (`chat`) or /v1/completions. Throws `error` if the body is not JSON. Also
/// throws, and names the field, if a field is unknown, wrong or not supported (unsupported).
completion_request read_completion_request(std::string_view body, bool chat);

/// A request for the ids of a prompt.
struct tokenize_request {
  std::optional<std::string> prompt{};  // a text, or
  std::string messages{}, tools{};      // a chat, in the form of completion_request
};

/// Reads the body of a request to /tokenize. Throws `error` as read_completion_request does.
tokenize_request read_tokenize_request(std::string_view body);

}  // namespace program
}  // namespace lazyprune
