// SPDX-License-Identifier: MIT
// The tokens of a chat, and which of them are never pruned: only the documents in a chat may be pruned.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

#include <lazyprune/core/types.hpp>
#include <lazyprune/policy/position_spans.hpp>
#include <lazyprune/registry/policy_spec.hpp>

namespace lazyprune {
inline namespace v0 {
class chat_request;
class rendered_chat;
class tokenizer;
}  // namespace v0

namespace program {

class chat_words;

/// The last tokens of a prompt usually hold the question. This many are never pruned, unless the policy has its own number.
inline constexpr std::size_t kept_last = 64;

/// The roles whose texts are documents. `user`: only the last user's message. `tool` and `assistant`: only their messages after the last
/// user's message. `system`: all system messages.
struct document_roles {
  bool user = true, tool = true, assistant = false, system = false;

  /// Reads a list such as "user,tool". Throws an `error` about --document-roles if an item is none of these roles.
  static document_roles parse(std::string_view text);
};

/// A chat in token ids, for the model to answer.
struct chat_prompt {
  std::vector<token_id> ids;
  position_spans kept;  // the positions that are never pruned
};

/// Puts the chat into the template. Throws `error` as chat_words::render does.
chat_prompt prompt_of(const chat_words& words, const tokenizer& tokens, chat_request chat, const document_roles& roles = {});

/// Marks the texts of the chat that are documents.
void mark_documents(chat_request& chat, const document_roles& roles = {});

/// Returns the positions of the tokens that are not wholly inside a document: the template's tokens, and all texts that are not marked.
/// `ids` are the tokens of the chat. If they do not decode to the chat's text, returns all positions.
position_spans outside_documents(const tokenizer& tokens, const rendered_chat& chat, std::span<const token_id> ids);

/// Returns the earlier turns of a chat that ends with a user's or a tool's message: the answers whose texts the template writes before an
/// end token. `ids` are the tokens of the chat, and `ends` the tokens that end an answer.
std::vector<earlier_turn> earlier_turns(const chat_words& words, const tokenizer& tokens, chat_request chat, std::span<const token_id> ids,
                                        std::span<const token_id> ends);

/// Returns whether the chat has an answer after a user's message.
bool has_answers(const chat_request& chat);

/// Returns the chat's first turn: the messages before the first answer to a user.
chat_request first_turn(const chat_request& chat);

/// Returns the policy for a prompt. It never prunes these positions and those that the policy keeps already. Nor does it prune the last
/// tokens: 64, unless the policy has another number.
policy_spec policy_for_prompt(policy_spec policy, const position_spans& kept);

}  // namespace program
}  // namespace lazyprune
