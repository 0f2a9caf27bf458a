// SPDX-License-Identifier: MIT
// gguf_config.test.cpp and gguf_tokenizer.test.cpp test how the keys for tokens are read.
#include <lazyprune/files/gguf_tokens.hpp>

#include <doctest/doctest.h>

TEST_CASE("tokens that end turns have well-known names") {
  using lazyprune::detail::ends_turn;
  for (const double type : {3.0, 4.0}) {  // control and user-defined
    CHECK(ends_turn("<|im_end|>", type));
    CHECK_FALSE(ends_turn("<|im_start|>", type));
  }
  CHECK_FALSE(ends_turn("<|im_end|>", 1));
}
