// SPDX-License-Identifier: MIT
// The token ids of a conversation. Those that were generated stay as they are, wherever the template still writes their text.
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
  /// The tokenizer must outlive it.
  explicit chat_ids(const tokenizer& tokens) : tokens_(&tokens) {}

  /// The ids of the whole chat as it is now rendered: those before, followed by what is added; or, where the rendering does not begin with
  /// the text so far, all anew.
  const std::vector<token_id>& next(const rendered_chat& chat);

  /// Takes in the answer, its EOS included.
  void add_answer(std::span<const token_id> generated);

 private:
  bool fits(std::span<const token_id> added, std::string_view text, std::span<const token_id> whole) const;

  const tokenizer* tokens_;
  std::string text_;  // of the ids
  std::vector<token_id> ids_;
};

/// The runs without the first `bytes` of their text.
std::vector<text_run> runs_after(std::vector<text_run> runs, std::size_t bytes);

}  // namespace program
}  // namespace lazyprune
