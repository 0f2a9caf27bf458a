// SPDX-License-Identifier: MIT
// Any bytes as a tokenizer.json, and, behind a zero byte, a text for it: an error, or ids that decode, whatever they are; none of a user's
// text is a special token. Ranks of tiktoken and SentencePiece models are read by the same bytes.
#include <lazyprune/text/tokenizer.hpp>
#include <lazyprune/text/tokenizer/tiktoken.hpp>
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzed.hpp"

namespace {

using lazyprune_test::characters, lazyprune_test::unless_refused;

void use(const lazyprune::tokenizer& tokens, std::string_view text) {
  using namespace lazyprune;
  const std::vector<token_id> ids = tokens.encode(text);
  for (const token_id id : ids)
    if (id >= tokens.size()) std::abort();
  for (const special_text special : {special_text::written, special_text::left_out})
    if (const std::string back = tokens.decode(ids, special); utf8_end(back) != back.size()) std::abort();
  for (const token_id id : tokens.encode(std::vector<text_run>{{text, false}}))
    if (tokens.is_special(id) && id != tokens.unknown()) std::abort();
  for (token_id id = 0; id < tokens.size(); id += 1 + id / 8) tokens.label(id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = input.find('\0');
  const std::string_view file = input.substr(0, zero),
                         text = zero == input.npos ? "It's a <s>test</s> of 123  words\n\xc3\xa9 e\xcc\x81\xff" : input.substr(zero + 1);
  unless_refused([&] { use(tokenizer(parse_tokenizer_json(file, "t.json", characters)), text); });
  unless_refused([&] { parse_tiktoken(file, "t.model", characters); });
  unless_refused([&] { use(tokenizer(parse_sentencepiece_model(input, "t.model")), "a test"); });
  return 0;
}
