// SPDX-License-Identifier: MIT
#include "words/chat_prompt.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "words/model_words.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/core/flag_text.hpp>
#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

/// The role of each message. A role that only some models know is given its usual name.
std::vector<std::string> roles_of(const chat_request& chat) {
  std::vector<std::string> roles;
  for (const auto& [name, item] : chat.variables()) {
    if (name != "messages" || !item.sequence()) continue;
    for (const jinja::value& message : item.sequence()->items) {
      const jinja::value* const role = message.dict() ? message.dict()->find("role") : nullptr;
      roles.push_back(role && role->text() ? role->text()->bytes() : "");
      if (roles.back() == "developer") roles.back() = "system";
      if (roles.back() == "model") roles.back() = "assistant";
      if (roles.back() == "function" || roles.back() == "ipython") roles.back() = "tool";
    }
  }
  return roles;
}

/// A stretch of a chat's text, as the tokenizer reads it.
struct stretch {
  std::string text;
  bool document;
};

/// `normalized`: texts of users are written as the tokenizer normalizes them, for example in NFC.
std::vector<stretch> stretches_of(const tokenizer& tokens, const rendered_chat& chat, bool normalized) {
  std::vector<stretch> all;
  for (const text_run& run : chat.runs()) {
    std::string text(run.text);
    if (normalized && !run.trusted)
      text = tokens.decode(tokens.encode(run.text, false, special_tokens::spelled_out), special_text::written);
    all.push_back({std::move(text), run.document});
  }
  return all;
}

/// Finds each token's place in the text. Returns the byte at which each token ends, or nullopt if the tokens have another text. Spaces do
/// not count, because some tokenizers add a space before a text, or drop it.
std::optional<std::vector<std::size_t>> ends_of(const tokenizer& tokens, std::span<const token_id> ids, std::string_view text) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  const auto pass = [&](std::string_view piece) {
    for (const char c : piece) {
      while (at < text.size() && text[at] != c && text[at] == ' ') ++at;
      const bool here = at < text.size() && text[at] == c;
      if (!here && c != ' ') return false;
      if (here) ++at;
    }
    return true;
  };
  token_decoder decoder(tokens, special_text::written);
  for (const token_id id : ids) {
    if (!pass(decoder.push(id))) return std::nullopt;
    ends.push_back(at);
  }
  if (!pass(decoder.flush()) || text.find_first_not_of(' ', at) != text.npos) return std::nullopt;
  if (!ends.empty()) ends.back() = text.size();
  return ends;
}

/// The positions of the tokens that are not wholly inside a document.
position_spans positions_outside(const std::vector<stretch>& stretches, const std::vector<std::size_t>& ends) {
  std::vector<position_span> kept;
  auto now = stretches.begin();
  std::size_t begin = 0, now_end = stretches.empty() ? 0 : now->text.size();
  for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
    while (now_end <= begin && now + 1 < stretches.end()) now_end += (++now)->text.size();
    if (now != stretches.end() && now->document && begin < now_end && ends[i] <= now_end) continue;
    const auto at = static_cast<position>(i);
    if (!kept.empty() && kept.back().last + 1 == at)
      kept.back().last = at;
    else
      kept.push_back({at, at});
  }
  return position_spans(std::move(kept));
}

}  // namespace

document_roles document_roles::parse(std::string_view text) {
  document_roles roles{.user = false, .tool = false};
  std::vector<std::string_view> names = split(text, ',');
  if (names.empty()) names.emplace_back();
  for (const std::string_view name : names) {
    if (name == "user")
      roles.user = true;
    else if (name == "tool")
      roles.tool = true;
    else if (name == "assistant")
      roles.assistant = true;
    else if (name == "system")
      roles.system = true;
    else
      throw error("--document-roles", text, "user, tool, assistant or system, or several of them with commas between",
                  name.empty() ? "nothing" : "\"" + std::string(name) + "\"");
  }
  return roles;
}

chat_prompt prompt_of(const chat_words& words, const tokenizer& tokens, chat_request chat, const document_roles& roles) {
  mark_documents(chat, roles);
  const rendered_chat text = words.render(chat);
  chat_prompt prompt{tokens.encode(text.runs(), text.template_words()), {}};
  prompt.kept = outside_documents(tokens, text, prompt.ids);
  return prompt;
}

void mark_documents(chat_request& chat, const document_roles& roles) {
  const std::vector<std::string> all = roles_of(chat);
  const std::size_t last_user = static_cast<std::size_t>(std::ranges::find(all.rbegin(), all.rend(), "user").base() - all.begin());
  std::vector<bool> documents;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool after_user = last_user > 0 && i >= last_user;  // last_user: one more than the message's number, or 0 if there is none
    documents.push_back((roles.user && i + 1 == last_user) || (roles.system && all[i] == "system") ||
                        (after_user && ((roles.tool && all[i] == "tool") || (roles.assistant && all[i] == "assistant"))));
  }
  chat.mark_documents(documents);
}

position_spans outside_documents(const tokenizer& tokens, const rendered_chat& chat, std::span<const token_id> ids) {
  for (const bool normalized : {false, true}) {
    const std::vector<stretch> stretches = stretches_of(tokens, chat, normalized);
    std::string text;
    for (const stretch& each : stretches) text += each.text;
    if (const auto ends = ends_of(tokens, ids, text)) return positions_outside(stretches, *ends);
  }
  if (ids.empty()) return {};
  return {{0, static_cast<position>(ids.size() - 1)}};
}

std::vector<earlier_turn> earlier_turns(const chat_words& words, const tokenizer& tokens, chat_request chat, std::span<const token_id> ids,
                                        std::span<const token_id> ends) {
  std::vector<bool> answers;
  for (const std::string& role : roles_of(chat)) answers.push_back(role == "assistant");
  if (std::ranges::find(answers, true) == answers.end()) return {};
  chat.mark_documents(answers);
  const rendered_chat rendered = words.render(chat);
  const std::vector<stretch> stretches = stretches_of(tokens, rendered, false);
  const std::string& text = rendered.text();
  const auto places = ends_of(tokens, ids, text);
  if (!places) return {};

  std::vector<earlier_turn> turns;
  std::size_t at = 0, token = 0;  // the stretch's first byte, and the first token that ends after it
  for (const stretch& each : stretches) {
    const std::size_t end = at + each.text.size();
    while (token < places->size() && (*places)[token] <= at) ++token;
    if (each.document) {
      const std::size_t before = token == 0 ? 0 : (*places)[token - 1];
      const bool begins_token = text.find_first_not_of(' ', before) >= at;  // a token may begin with the space before the answer
      std::size_t after = token;
      while (after < places->size() && (*places)[after] < end) ++after;
      const bool ends_token = after < places->size() && (*places)[after] == end && after + 1 < ids.size();
      if (begins_token && ends_token && std::ranges::find(ends, ids[after + 1]) != ends.end()) turns.push_back({token, after + 1});
    }
    at = end;
  }
  return turns;
}

chat_request first_turn(const chat_request& chat) {
  chat_request first = chat;
  const std::vector<std::string> roles = roles_of(chat);
  first.keep_first(static_cast<std::size_t>(std::ranges::find(roles, "assistant") - roles.begin()));
  return first;
}

policy_spec policy_for_prompt(policy_spec policy, const position_spans& kept) {
  if (policy.preset == dense_policy) return policy;
  if (!policy.keep_last) policy.keep_last = kept_last;
  std::vector<position_span> all(kept.list().begin(), kept.list().end());
  const position_spans asked = position_spans::parse(policy.keep.value_or(""), "--keep");
  all.insert(all.end(), asked.list().begin(), asked.list().end());
  if (!all.empty()) policy.keep = position_spans(std::move(all)).text();
  return policy;
}

}  // namespace program
}  // namespace lazyprune
