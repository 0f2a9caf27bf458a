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

/// The role of each message. Roles that only some models know get their usual names.
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

/// `normalized`: the tokenizer normalizes the users' texts, for example to NFC.
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

/// Returns the byte of the text after this piece, which begins at byte `at`, or nullopt if another text is there. Differences in spaces do
/// not count, because some tokenizers add a space before a text, or drop it.
std::optional<std::size_t> after(std::string_view piece, std::string_view text, std::size_t at) {
  for (const char c : piece) {
    while (at < text.size() && text[at] != c && text[at] == ' ') ++at;
    const bool here = at < text.size() && text[at] == c;
    if (!here && c != ' ') return std::nullopt;
    if (here) ++at;
  }
  return at;
}

/// Returns the byte of the text at which each token ends, or nullopt if the tokens have another text.
std::optional<std::vector<std::size_t>> ends_of(const tokenizer& tokens, std::span<const token_id> ids, std::string_view text) {
  std::vector<std::size_t> ends;
  std::optional<std::size_t> at = 0;
  token_decoder decoder(tokens, special_text::written);
  for (const token_id id : ids) {
    at = after(decoder.push(id), text, *at);
    if (!at) return std::nullopt;
    // The decoder holds back bytes that may still change, even if they are a whole character already.
    ends.push_back(after(token_decoder(decoder).flush(), text, *at).value_or(*at));
  }
  at = after(decoder.flush(), text, *at);
  if (!at || text.find_first_not_of(' ', *at) != text.npos) return std::nullopt;
  if (!ends.empty()) ends.back() = text.size();
  return ends;
}

/// A chat's text, cut where its origin changes, and the byte at which each token ends.
struct placed_tokens {
  std::vector<stretch> stretches;
  std::string text;
  std::vector<std::size_t> ends;
};

/// Returns nullopt if the tokens do not decode to the chat's text.
std::optional<placed_tokens> placed(const tokenizer& tokens, const rendered_chat& chat, std::span<const token_id> ids) {
  for (const bool normalized : {false, true}) {
    placed_tokens all{stretches_of(tokens, chat, normalized), {}, {}};
    for (const stretch& each : all.stretches) all.text += each.text;
    if (auto ends = ends_of(tokens, ids, all.text)) {
      all.ends = std::move(*ends);
      return all;
    }
  }
  return std::nullopt;
}

/// The index of the first answer after a user's message; the number of messages if there is none.
std::size_t first_answer(const std::vector<std::string>& roles) {
  const auto user = std::ranges::find(roles, "user");
  return static_cast<std::size_t>(std::find(user, roles.end(), "assistant") - roles.begin());
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
  if (const auto found = placed(tokens, chat, ids)) return positions_outside(found->stretches, found->ends);
  if (ids.empty()) return {};
  return {{0, static_cast<position>(ids.size() - 1)}};
}

bool has_answers(const chat_request& chat) {
  const std::vector<std::string> roles = roles_of(chat);
  return first_answer(roles) < roles.size();
}

std::vector<earlier_turn> earlier_turns(const chat_words& words, const tokenizer& tokens, chat_request chat, std::span<const token_id> ids,
                                        std::span<const token_id> ends) {
  const std::vector<std::string> roles = roles_of(chat);
  std::vector<bool> answers(roles.size());
  for (std::size_t i = first_answer(roles); i < roles.size(); ++i) answers[i] = roles[i] == "assistant";
  chat.mark_documents(answers);
  const rendered_chat rendered = words.render(chat);
  const auto found = placed(tokens, rendered, ids);
  if (!found) return {};

  std::vector<earlier_turn> turns;
  const auto first_that_ends_at = [&](std::size_t byte) {
    return static_cast<std::size_t>(std::ranges::lower_bound(found->ends, byte) - found->ends.begin());
  };
  std::size_t at = 0;  // the stretch's first byte
  for (const stretch& each : found->stretches) {
    const std::size_t end = at + each.text.size();
    if (each.document && at > 0) {
      // The answer's first token may begin with the spaces before the answer. It is the one after the token that ends before them.
      const std::size_t before = first_that_ends_at(found->text.find_last_not_of(' ', at - 1) + 1), last = first_that_ends_at(end);
      const bool whole_tokens = last + 1 < ids.size() && found->ends[before] <= at && found->ends[last] == end;
      // Llama 2's template writes a space between the answer and the end token.
      std::size_t next = last + 1;
      while (next < ids.size() && found->text.find_first_not_of(' ', end) >= found->ends[next]) ++next;
      if (whole_tokens && before < last && next < ids.size() && std::ranges::find(ends, ids[next]) != ends.end())
        turns.push_back({before + 1, last + 1});
    }
    at = end;
  }
  return turns;
}

chat_request first_turn(const chat_request& chat) {
  chat_request first = chat;
  first.keep_first(first_answer(roles_of(chat)));
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
