// SPDX-License-Identifier: MIT
#include <lazyprune/eval/truncation.hpp>

#include <doctest/doctest.h>

#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/text/model_tokenizer.hpp>

#include <test_data.hpp>

using namespace lazyprune;

namespace {

/// Truncates with a tokenizer that has one token for each byte. It puts token 256 before each text, as models do with BOS. Decoding skips
/// token 256.
std::string truncated(std::string_view text, std::size_t most) {
  return middle_truncated(
      text, most,
      [](std::string_view t) {
        std::vector<token_id> ids{256};
        for (const char c : t) ids.push_back(static_cast<unsigned char>(c));
        return ids;
      },
      [](std::span<const token_id> ids) {
        std::string t;
        for (const token_id id : ids)
          if (id < 256) t += static_cast<char>(id);
        return t;
      });
}

}  // namespace

TEST_CASE("a short text stays, a long one loses its middle") {
  CHECK(truncated("0123456789", 11) == "0123456789");
  CHECK(truncated("0123456789", 10) == "012356789");  // the first half's five tokens are token 256 and four characters
  CHECK(truncated("0123456789", 9) == "0126789");     // each half has 9 / 2 = 4 tokens
  CHECK(truncated("0123456789", 3) == "9");
  CHECK(truncated("0123456789", 2) == "9");
  CHECK(truncated("", 2) == "");
}

TEST_CASE("the limit must have room for both halves") {
  CHECK_THROWS_AS(truncated("0", 1), error);
  CHECK_THROWS_AS(truncated("0", 0), error);
}

TEST_CASE("truncation with a model's tokenizer") {
  const std::optional<tokenizer> tokens = find_tokenizer(checkpoint(pocket_model()));
  REQUIRE(tokens);
  const std::string text = "the chapter on gardens leads to rivers . the chapter on mills leads to forests";
  const std::size_t size = tokens->encode(text).size();
  CHECK(middle_truncated(text, size, *tokens) == text);
  // The first half is BOS and three words. The second half is decoded separately, and decoding removes the space at the
  // start of a text.
  CHECK(middle_truncated(text, 8, *tokens) == "the chapter onmills leads to forests");
}
