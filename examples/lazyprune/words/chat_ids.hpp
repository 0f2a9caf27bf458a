// SPDX-License-Identifier: MIT
// Keeps the token ids of a conversation. Generated ids are kept as they are, as long as the template still writes their text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lazyprune/core/types.hpp>
#include <lazyprune/text/text_run.hpp>

namespace lazyprune {
inline namespace v0 {
class rendered_chat;
class tokenizer;
}  // namespace v0

namespace program {

class chat_ids {
 public:
  /// The tokenizer must outlive this object.
  explicit chat_ids(const tokenizer& tokens) : tokens_(&tokens) {}

  /// Returns the ids of the whole rendered chat: the earlier ids, followed by the ids of the added text. If the rendering does not begin
  /// with the earlier text, or the added text cannot be encoded by itself, the whole chat is encoded again.
  const std::vector<token_id>& next(const rendered_chat& chat);

  /// Appends the ids of an answer, including its EOS.
  void add_answer(std::span<const token_id> generated);

 private:
  bool fits(std::span<const token_id> added, std::string_view text, std::span<const token_id> whole) const;

  const tokenizer* tokens_;
  std::string text_;  // the text of `ids_`
  std::vector<token_id> ids_;
};

/// Returns the runs without the first `bytes` bytes of their text.
std::vector<text_run> runs_after(std::vector<text_run> runs, std::size_t bytes);

}  // namespace program
}  // namespace lazyprune
