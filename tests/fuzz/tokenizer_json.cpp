// SPDX-License-Identifier: MIT
// The input is a tokenizer.json and, after a zero byte, a text. If reading the tokenizer reports no error, the text is encoded, and
// its ids must decode to UTF-8. No token of a user's text may be special or one of the template's own added tokens. The same bytes are also
// read as a tiktoken and a SentencePiece file.
#include <lazyprune/text/tokenizer.hpp>
#include <lazyprune/text/tokenizer/tiktoken.hpp>
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzzed.hpp"

namespace {

using lazyprune_test::characters, lazyprune_test::unless_refused;

/// Encodes and decodes the text, as a plain text and as a user's text in a chat. Aborts if a result is wrong. The text is also used as the
/// words of the chat's template: `marks` has the added tokens in it that are not special, which the user's text may not contain.
void use(const lazyprune::tokenizer& tokens, std::string_view text, const std::set<lazyprune::token_id>& marks = {}) {
  using namespace lazyprune;
  const std::vector<token_id> ids = tokens.encode(text);
  for (const token_id id : ids)
    if (id >= tokens.size()) std::abort();
  for (const special_text special : {special_text::written, special_text::left_out})
    if (const std::string back = tokens.decode(ids, special); utf8_end(back) != back.size()) std::abort();
  for (const token_id id : tokens.encode(std::vector<text_run>{{text, false}}))
    if (tokens.is_special(id) && id != tokens.unknown()) std::abort();
  for (const token_id id : tokens.encode(std::vector<text_run>{{"x", true}, {text, false}}, text))
    if (marks.contains(id) && id != tokens.unknown()) std::abort();
  for (token_id id = 0; id < tokens.size(); id += 1 + id / 8) tokens.label(id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = input.find('\0');
  const std::string_view file = input.substr(0, zero),
                         text = zero == input.npos ? "It's a <s>test</s> of 123  words\n\xc3\xa9 e\xcc\x81\xff" : input.substr(zero + 1);
  unless_refused([&] {
    token_pipeline parts = parse_tokenizer_json(file, "t.json", characters);
    std::set<token_id> marks;
    parts.added.each_mark(text, [&](token_id id) { marks.insert(id); });
    use(tokenizer(std::move(parts)), text, marks);
  });
  unless_refused([&] { parse_tiktoken(file, "t.model", characters); });
  unless_refused([&] { use(tokenizer(parse_sentencepiece_model(input, "t.model")), "a test"); });
  return 0;
}
