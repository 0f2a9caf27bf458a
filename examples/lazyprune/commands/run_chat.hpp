// SPDX-License-Identifier: MIT
// lazyprune run --chat: what a model is told and asked, in the words of its own template; and a conversation, whose turns are lines on
// stdin.
#pragma once

#include <string>

#include "commands/run.hpp"

#include <lazyprune/text/chat_template.hpp>

namespace lazyprune {
namespace program {

/// The chat of --messages, else one user turn of this text; --system before it. An answer follows. Throws `error` where the file holds no
/// chat.
chat_request chat_of(const run_flags& flags, const std::string& text);

/// A conversation. Returns the exit code.
int run_chat(const run_flags& flags, const policy_registry& policies);

}  // namespace program
}  // namespace lazyprune
