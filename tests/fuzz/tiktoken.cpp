// SPDX-License-Identifier: MIT
// The input is a tokenizer.model of tiktoken ranks. Llama 3's 128,000 ranks are longer than the fuzzer's inputs, so each input is refused.
#include <lazyprune/text/tokenizer/tiktoken.hpp>

#include <cstddef>
#include <cstdint>

#include "fuzzed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lazyprune_test;
  const std::string_view text = text_of({data, size});
  const bounded_work bounds(size);
  unless_refused([&] {
    if (!lazyprune::is_tiktoken(text)) return;
    lazyprune::parse_tiktoken(text, "t.model", characters);
    must(false, "so few ranks are refused");
  });
  return 0;
}
