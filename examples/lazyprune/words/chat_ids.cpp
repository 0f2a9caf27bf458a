// SPDX-License-Identifier: MIT
#include "words/chat_ids.hpp"

#include <algorithm>

#include <lazyprune/text/chat_template.hpp>
#include <lazyprune/text/tokenizer.hpp>

namespace lazyprune {
namespace program {
namespace {

/// Decodes the ids, and the bytes that the decoder holds back after the last one. Skips ids beyond the tokenizer's vocabulary: a model may
/// have filler tokens there, which have no text.
std::string decoded(token_decoder& decoder, const tokenizer& tokens, std::span<const token_id> ids) {
  std::string text;
  for (const token_id id : ids)
    if (id < tokens.size()) text += decoder.push(id);
  text += decoder.flush();
  return text;
}

}  // namespace

std::vector<text_run> runs_after(std::vector<text_run> runs, std::size_t bytes) {
  std::vector<text_run> rest;
  for (text_run run : runs) {
    const std::size_t gone = std::min(bytes, run.text.size());
    run.text.remove_prefix(gone);
    bytes -= gone;
    if (!run.text.empty()) rest.push_back(run);
  }
  return rest;
}

/// True if the added text may be encoded by itself, with the ids `added`. This is so if `added` decodes to the text, or if the ids of the
/// whole chat, `whole`, end with `added`. SentencePiece may put a space before a text that is encoded by itself. Its ids then do not fit.
bool chat_ids::fits(std::span<const token_id> added, std::string_view text, std::span<const token_id> whole) const {
  if (added.size() <= whole.size() && std::ranges::equal(added, whole.last(added.size()))) return true;
  token_decoder decoder(*tokens_, special_text::written);
  decoded(decoder, *tokens_, ids_);
  decoder.begin_answer();
  return decoded(decoder, *tokens_, added) == text;
}

const std::vector<token_id>& chat_ids::next(const rendered_chat& chat) {
  const std::string &text = chat.text(), words = chat.template_words();
  std::vector<token_id> whole = tokens_->encode(chat.runs(), words);
  std::vector<token_id> added;
  bool goes_on = !ids_.empty() && text.starts_with(text_);
  if (goes_on) {
    added = tokens_->encode(runs_after(chat.runs(), text_.size()), words);
    goes_on = fits(added, std::string_view(text).substr(text_.size()), whole);
  }
  if (goes_on)
    ids_.insert(ids_.end(), added.begin(), added.end());
  else
    ids_ = std::move(whole);
  text_ = text;
  return ids_;
}

void chat_ids::add_answer(std::span<const token_id> generated) {
  token_decoder decoder(*tokens_, special_text::written);
  decoded(decoder, *tokens_, ids_);
  decoder.begin_answer();
  text_ += decoded(decoder, *tokens_, generated);
  ids_.insert(ids_.end(), generated.begin(), generated.end());
}

}  // namespace program
}  // namespace lazyprune
