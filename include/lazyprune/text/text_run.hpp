// SPDX-License-Identifier: MIT
// What a rendered chat hands to a tokenizer: its text in runs, each the template's own or the user's.
//
// How a tokenizer reads the runs: the text is all runs joined. A reserved token is recognised only where every byte of it lies in one
// trusted run; runs alternate, so that no two trusted ones touch. Reserved are special tokens (those that the tokenizer's files mark as
// special or control), and every added token whose text stands in the template's words: the trusted runs, and what the template says
// elsewhere. So bytes of a user never make a token that the template's text makes. Added tokens of white space alone are not reserved:
// every text has them.
//
// What lies between two recognised tokens is encoded as one text, across the borders of runs, as if reserved tokens did not exist there;
// other added tokens are recognised anywhere. No BOS or EOS is added: the template has written its own.
#pragma once

#include <string_view>

namespace lazyprune {
inline namespace v0 {

struct text_run {
  std::string_view text;
  bool trusted = false;  // the template's own words, bos_token and their like; else the words of users, tools and documents
  friend bool operator==(const text_run&, const text_run&) = default;
};

}  // namespace v0
}  // namespace lazyprune
