// SPDX-License-Identifier: MIT
// The input is a tokenizer.model of SentencePiece. If reading it reports no error, a text is encoded and decoded.
#include <lazyprune/text/tokenizer.hpp>

#include <cstddef>
#include <cstdint>

#include "used_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune;
  using namespace lazyprune_test;
  const bounded_work bounds(size, {.bytes = 64});
  unless_refused([&] { use(tokenizer(parse_sentencepiece_model(text_of({data, size}), "t.model")), "It's a <s>test</s>\n\xc3\xa9 \xff"); });
  return 0;
}
