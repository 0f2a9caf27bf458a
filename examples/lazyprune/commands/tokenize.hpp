// SPDX-License-Identifier: MIT
// lazyprune tokenize: the ids and pieces of texts and chats, and the texts of ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/flags.hpp"

#include <lazyprune/core/types.hpp>

namespace lazyprune {
namespace program {

struct tokenize_flags {
  model_flags model;
  std::optional<std::string> prompt, file;
  std::vector<token_id> ids;
  std::string messages;       // a file with a chat
  std::string requests;       // a file with one a line
  bool no_special = false;    // a text gets no BOS or EOS
  bool parse_special = true;  // control tokens are read in a text; else they are spelled out
  template_flags words;
  bool json = false;
};

/// Returns the exit code.
int tokenize(const tokenize_flags& flags);

}  // namespace program
}  // namespace lazyprune
