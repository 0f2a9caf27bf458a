// SPDX-License-Identifier: MIT
// lazyprune run: generates text, and reports time, rows and memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"
#include "words/chat_prompt.hpp"

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
  std::optional<std::string> prompt;  // the prompt, or a question about the document in `file`
  std::optional<std::string> file;    // the prompt, or a document; "-": stdin
  std::vector<token_id> ids;
  std::size_t predict = 1024;  // most tokens to generate
  std::size_t context = 0;
  std::size_t chunk = 0;      // tokens of the prompt to read at a time; 0: all at once
  std::size_t speculate = 0;  // the most tokens in a step, drafts included; 0: one token in a step, no drafts
  std::string questions;      // a file of questions about the document in `file`; empty: none
  bool chat = false;          // the prompt is a user's turn
  bool conversation = false;  // turns are read from stdin; the first begins with the document in `file`, if any
  bool raw = false;           // document and question are plain text even if the model has a chat template
  bool parse_special = true;  // control tokens in a plain prompt are read as control tokens; false: as ordinary text
  template_flags words;
  std::string messages;  // a file with a whole chat; empty: none
  std::optional<std::string> system;
  std::optional<document_roles> documents;  // the messages of a chat that may be pruned; none: those of document_roles{}
  lazyprune::sampling sampling;
  bool ignore_eos = false;
  std::vector<std::string> stops;
  std::vector<token_id> force;
  bool compare = false, verbose = false, json = false, trace_logits = false;
  bool force_memory = false;  // load the model even if it may not fit into memory
  std::string trace;
};

/// True if there is a document with one or more questions. Control tokens in the document and the questions are then read as ordinary text,
/// whatever `parse_special` says.
inline bool has_document(const run_flags& flags) { return flags.file && (flags.prompt || !flags.questions.empty()); }

/// Returns the exit code.
int run(const run_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
