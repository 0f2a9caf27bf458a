// SPDX-License-Identifier: MIT
// Uses a tokenizer that a fuzz target made.
#pragma once

#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzed.hpp"

namespace lazyprune_test {

/// Encodes and decodes the text, as a plain text and as a user's text in a chat. Aborts if a result is wrong. The text is also used as the
/// words of the chat's template: `marks` has the added tokens in it that are not special, which the user's text may not contain.
inline void use(const lazyprune::tokenizer& tokens, std::string_view text, const std::set<lazyprune::token_id>& marks = {}) {
  using namespace lazyprune;
  never_refused([&] {
    const std::vector<token_id> ids = tokens.encode(text);
    for (const token_id id : ids) must(id < tokens.size(), "an id is in the vocabulary");
    for (const special_text special : {special_text::written, special_text::left_out}) {
      const std::string back = tokens.decode(ids, special);
      must(utf8_end(back) == back.size(), "decoded ids are UTF-8");
    }
    for (const token_id id : tokens.encode(std::vector<text_run>{{text, false}}))
      must(!tokens.is_special(id) || id == tokens.unknown(), "a user's text makes no special token");
    for (const token_id id : tokens.encode(std::vector<text_run>{{"x", true}, {text, false}}, text))
      must(!marks.contains(id) || id == tokens.unknown(), "a user's text makes no token of the template");
    for (token_id id = 0; id < tokens.size(); id += 1 + id / 8) tokens.label(id);
  });
}

}  // namespace lazyprune_test
