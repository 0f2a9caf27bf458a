// SPDX-License-Identifier: MIT
// A run: a stretch of a rendered chat of one origin: the template (trusted), a document, or other text of the user.
//
// The tokenizer joins all runs to one text. It recognises a reserved token only if all its bytes lie in one trusted run. Neighbouring runs
// of a chat differ in origin. Reserved tokens are:
// - the special tokens: the tokenizer's files mark them as special or control;
// - every added token whose text occurs in the template's words. These words are the trusted runs and all other texts of the template.
// A user's text therefore never becomes a special token, or an added token that the template writes. Added tokens that are only white
// space are not reserved, because every text has white space.
//
// The text between two recognised tokens is encoded as one text, across the borders of runs. This never makes a reserved token. Other
// added tokens are recognised anywhere. No BOS or EOS is added, because the template writes these tokens.
#pragma once

#include <string_view>

namespace lazyprune {
inline namespace v0 {

struct text_run {
  std::string_view text;
  bool trusted = false;  // true: text of the template, bos_token and the like; false: text of users and tools, and the variable `documents`
  bool document = false;  // true: the content of a message that chat_request::mark_documents chose
  friend bool operator==(const text_run&, const text_run&) = default;
};

}  // namespace v0
}  // namespace lazyprune
