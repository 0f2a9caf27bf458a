// SPDX-License-Identifier: MIT
// `lazyprune chat` holds a conversation: each line on stdin is a turn. `chat_of` makes the chat of a single prompt.
#pragma once

#include <string>

#include "commands/run.hpp"

#include <lazyprune/text/chat_template.hpp>

namespace lazyprune {
namespace program {

/// Returns the chat of --messages; without that flag, one user turn with this text. The text of --system comes first. After the last
/// message it is the model's turn. Throws `error` if the file holds no chat.
chat_request chat_of(const run_flags& flags, const std::string& text);

/// Holds a conversation. The first turn begins with the document and a blank line, unless the document is empty. Returns the exit code.
int run_chat(const run_flags& flags, const std::string& document, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
