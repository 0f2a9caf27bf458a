// SPDX-License-Identifier: MIT
// The input is a tokenizer.json and, after a zero byte, a text. If reading the tokenizer reports no error, the text is encoded, and
// its ids must decode to UTF-8. No token of a user's text may be special or one of the template's own added tokens.
#include <lazyprune/text/tokenizer/tokenizer_json.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "used_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune_test;
  std::string_view text = text_of({data, size});
  const std::string_view file = next_part(text);
  if (file.size() == size) text = "It's a <s>test</s> of 123  words\n\xc3\xa9 e\xcc\x81\xff";
  const bounded_work bounds(size, {.bytes = 64});
  unless_refused([&] {
    token_pipeline parts = parse_tokenizer_json(file, "t.json", characters);
    std::set<token_id> marks;
    parts.added.each_mark(text, [&](token_id id) { marks.insert(id); });
    use(tokenizer(std::move(parts)), text, marks);
  });
  return 0;
}
