// SPDX-License-Identifier: MIT
// What a rendered chat hands to a tokenizer: its text in runs, each the template's own or the user's.
//
// How a tokenizer reads the runs: the text is all runs joined. A special token (one that the tokenizer's files mark as special or control)
// is recognised only where every byte of it lies in one trusted run; runs alternate, so that no two trusted ones touch. What lies between
// two recognised tokens is encoded as one text, across the borders of runs, as if special tokens did not exist there; added tokens that are
// not special are recognised anywhere. No BOS or EOS is added: the template has written its own.
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
