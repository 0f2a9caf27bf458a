// SPDX-License-Identifier: MIT
// A run: a stretch of a rendered chat that was written either by the template (trusted) or by the user.
//
// The tokenizer joins all runs to one text. It recognises a reserved token only if all its bytes lie in one trusted run. Trusted and other
// runs alternate. Reserved tokens are:
// - the special tokens, which are those that the tokenizer's files mark as special or control;
// - every added token whose text occurs in the template's words, which are the trusted runs and all other texts of the template.
// So a user's text never becomes a token that the template's text makes. Added tokens that are only white space are not reserved, since
// every text has them.
//
// The text between two recognised tokens is encoded as one text, across the borders of runs. There are no reserved tokens in it. Other
// added tokens are recognised anywhere. No BOS or EOS is added, since the template writes its own.
#pragma once

#include <string_view>

namespace lazyprune {
inline namespace v0 {

struct text_run {
  std::string_view text;
  bool trusted = false;  // true: text of the template, bos_token and the like; false: text of users, tools and documents
  friend bool operator==(const text_run&, const text_run&) = default;
};

}  // namespace v0
}  // namespace lazyprune
