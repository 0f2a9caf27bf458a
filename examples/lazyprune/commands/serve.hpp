// SPDX-License-Identifier: MIT
// lazyprune serve: answers requests over HTTP, in the form of OpenAI's API.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "commands/flags.hpp"
#include "serve/http_server.hpp"
#include "words/chat_prompt.hpp"

#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct serve_flags {
  model_flags model;
  backend_flags backend;
  policy_spec policy;
  template_flags words;
  std::optional<document_roles> documents{};  // the messages of a chat that may be pruned; none: those of document_roles{}
  http_options http;
  std::string key_file{};      // a file of keys, one a line; empty: no key is needed
  std::size_t context = 0;     // 0: the model's limit
  std::size_t predict = 1024;  // most tokens of a chat's answer whose request sets no limit
  std::size_t sequences = 16;  // answers that are generated together
  std::size_t queue = 64;      // answers that wait
  std::chrono::seconds drain{30};
  std::chrono::seconds deadline{0};              // from a request to the end of its answer; 0: none
  std::optional<std::size_t> cache_mebibytes{};  // for beginnings of prompts; none: a quarter of the free memory
  std::string cache_file{};                      // keeps the beginnings for the next run; empty: no file does
  std::string log{};                             // a file with a line for each request; empty: none
  bool log_texts = false;                        // whether these lines have the texts of prompts and answers
  bool force_memory = false;
};

/// Serves until SIGINT or SIGTERM. Returns the exit code.
int serve(const serve_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
