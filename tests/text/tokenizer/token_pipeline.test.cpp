// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/token_pipeline.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using lazyprune::bpe;
using lazyprune::normalizer;
using lazyprune::text_range;
using lazyprune::token_id;
using lazyprune::token_pipeline;
using lazyprune::vocabulary;
using ids = std::vector<token_id>;

namespace {

/// A pipeline with the pieces "a", "b", " ", "_" and "<". The normalizer puts "_" before every stretch between added tokens. The
/// added tokens "<s>" and "<n>" are special, and "ab" is not.
token_pipeline small() {
  normalizer normal({normalizer::prepend{"_"}});
  lazyprune::added_tokens added(
      {{.text = "<s>", .id = 5, .special = true}, {.text = "<n>", .id = 6, .normalized = true, .special = true}, {.text = "ab", .id = 7}},
      normal, nullptr);
  return {"BPE", std::move(added), std::move(normal), {}, bpe(vocabulary({"a", "b", " ", "_", "<"}), {}), {}, {}};
}

ids encoded(const token_pipeline& tokens, std::string_view text, text_range trusted = {0, 1000}) {
  return tokens.encode(
      text, [&](token_id id) { return tokens.is_special(id); },
      [&](text_range range) { return range.begin >= trusted.begin && range.end <= trusted.end; });
}

}  // namespace

TEST_CASE("added tokens are cut out first, the text between them is then normalized, and the model encodes it") {
  const token_pipeline tokens = small();
  CHECK(tokens.size() == 8);
  CHECK(tokens.piece(7) == "ab");
  CHECK(tokens.piece(0) == "a");
  CHECK_FALSE(tokens.piece(8).has_value());
  CHECK(encoded(tokens, "a<s>baab") == ids{3, 0, 5, 3, 1, 0, 7});
  CHECK(encoded(tokens, "").empty());
}

TEST_CASE("special tokens are found only in allowed ranges, and other added tokens anywhere") {
  const token_pipeline tokens = small();
  CHECK(encoded(tokens, "<s>ab<s>", {0, 5}) == ids{5, 7, 3, 4});
  CHECK(encoded(tokens, "<n>b") == ids{6, 1});             // the normalizer makes it "_<n>b"
  CHECK(encoded(tokens, "<n>b", {0, 3}) == ids{3, 4, 1});  // only a part of the changed stretch is trusted
}

TEST_CASE("any token may be reserved; outside its allowed ranges, the model does not make it either") {
  const token_pipeline tokens = small();
  const auto encoded_without = [&](token_id reserved, std::string_view text) {
    return tokens.encode(
        text, [&](token_id id) { return id == reserved; }, [](text_range range) { return range.begin == 0; });
  };
  CHECK(encoded_without(7, "ab<s>ab") == ids{7, 5, 3, 0, 1});
  CHECK(encoded_without(1, "ab<s>b") == ids{7, 5, 3});
}

TEST_CASE("repeated words have the same tokens") {
  const token_pipeline plain{
      "BPE", {}, {}, lazyprune::pre_tokenizer({lazyprune::pre_tokenizer::whitespace_split{}}), bpe(vocabulary({"a", "b"}), {}), {}, {}};
  CHECK(encoded(plain, "ab b ab x b x") == ids{0, 1, 1, 0, 1, 1});
}
