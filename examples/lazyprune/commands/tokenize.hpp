// SPDX-License-Identifier: MIT
// lazyprune tokenize: shows the ids and pieces of texts and chats, and the texts of ids.
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
  std::string requests;       // a file with one request per line
  bool no_special = false;    // add no BOS or EOS to a text
  bool parse_special = true;  // control tokens in a text are read as control tokens; false: as ordinary text
  template_flags words;
  bool json = false;
};

/// Returns the exit code.
int tokenize(const tokenize_flags& flags);

}  // namespace program
}  // namespace lazyprune
