// SPDX-License-Identifier: MIT
// `lazyprune chat` holds a conversation: each line on stdin is a turn. `chat_of` makes the chat of a single prompt.
#pragma once

#include <string>

#include "commands/run.hpp"

#include <lazyprune/text/chat_template.hpp>

namespace lazyprune {
namespace program {

/// Returns the chat in the file of --messages. Without that flag, the chat is one user's turn with `text`. The text of --system, if given,
/// is the first message. The template is asked to end with the words that begin the model's answer. Throws `error` if the file holds no
/// chat.
chat_request chat_of(const run_flags& flags, const std::string& text);

/// Holds a conversation. The first turn begins with the document and a blank line, unless the document is empty. Returns the exit code.
int run_chat(const run_flags& flags, const std::string& document, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
