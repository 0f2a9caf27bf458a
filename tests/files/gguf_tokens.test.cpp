// SPDX-License-Identifier: MIT
// The keys are read in gguf_config.test.cpp and gguf_tokenizer.test.cpp.
#include <lazyprune/files/gguf_tokens.hpp>

#include <doctest/doctest.h>

TEST_CASE("tokens that begin and end turns, by their names") {
  using lazyprune::detail::ends_turn;
  using lazyprune::detail::marks_turn;
  for (const double type : {3.0, 4.0}) {  // control and user-defined
    CHECK(ends_turn("<|im_end|>", type));
    CHECK_FALSE(ends_turn("<|im_start|>", type));
  }
  CHECK_FALSE(ends_turn("<|im_end|>", 1));
  for (const char* text : {"<|im_end|>", "<end_of_turn>", "<|im_start|>", "<|system|>"}) CHECK(marks_turn(text));
  for (const char* text : {"", "<|im_end|> ", "<x>", "user"}) CHECK_FALSE(marks_turn(text));
}
