// SPDX-License-Identifier: MIT
// lazyprune run: generates text, and says what it took.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/model/sampler.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class policy_registry;
}  // namespace v0

namespace program {

struct run_flags {
  model_flags model;
  backend_flags backend;
  policy_spec policy;
  std::optional<std::string> prompt;  // the prompt, or a question about the document that `file` names
  std::optional<std::string> file;    // the prompt, or a document; "-": stdin
  std::vector<token_id> ids;
  std::size_t predict = 1024;  // tokens at most
  std::size_t context = 0;
  std::size_t chunk = 0;      // tokens of the prompt to read at a time; 0: all
  std::size_t speculate = 0;  // tokens a step reads at most; 0: one, without drafts
  std::string questions;      // a file of them about the document that `file` names; empty: none
  bool chat = false;          // a prompt is a user's turn
  bool conversation = false;  // turns are read from stdin; the first is about the document that `file` names, if any
  bool raw = false;           // a document and a question are plain text, also where the model has a chat template
  bool parse_special = true;  // control tokens are read in a plain prompt; else they are spelled out
  template_flags words;
  std::string messages;  // a file with a whole chat; empty: none
  std::optional<std::string> system;
  lazyprune::sampling sampling;
  bool ignore_eos = false;
  std::vector<std::string> stops;
  std::vector<token_id> force;
  bool compare = false, verbose = false, json = false, trace_logits = false;
  bool force_memory = false;  // loads what may not fit
  std::string trace;
};

/// True for a document with a question or questions. Control tokens in such a prompt are spelled out.
inline bool has_document(const run_flags& flags) { return flags.file && (flags.prompt || !flags.questions.empty()); }

/// Returns the exit code.
int run(const run_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
