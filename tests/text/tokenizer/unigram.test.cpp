// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/unigram.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <files/support.hpp>

using lazyprune::token_id;
using lazyprune::unigram;
using lazyprune::vocabulary;
using ids = std::vector<token_id>;

namespace {

unigram small(bool byte_fallback, std::optional<token_id> unknown = 0) {
  return {vocabulary({"<unk>", "a", "b", "ab", "abc", "c", "<0xC3>", "<0xA9>"}), {0, -1, -2, -2.5, -9, -3, -5, -5}, unknown, byte_fallback};
}
ids encoded(const unigram& model, std::string_view word) {
  ids out;
  model.encode(word, out);
  return out;
}

}  // namespace

TEST_CASE("a word is split into the pieces with the greatest sum of scores, as tokenizers 0.23 does it") {
  const unigram plain = small(false), bytes = small(true);
  CHECK(encoded(plain, "abc") == ids{3, 5});
  CHECK(encoded(plain, "abxyc") == ids{3, 0, 5});
  CHECK(encoded(plain,
                "a\xc3\xa9"
                "b") == ids{1, 0, 2});
  CHECK(encoded(plain, "").empty());
  CHECK(encoded(bytes,
                "a\xc3\xa9"
                "b") == ids{1, 6, 7, 2});
  CHECK(encoded(bytes, "a\xc3\xa9xb") == ids{1, 0, 2});  // a run of unknown characters becomes bytes as a whole, or not at all
}

TEST_CASE("a missing unknown token and a piece that is too long are errors; a long word is encoded") {
  CHECK(lazyprune_test::error_of([] { encoded(small(false, {}), "x"); }) == lazyprune_test::at("tokenizer: text"));
  CHECK(lazyprune_test::error_of([] { unigram(vocabulary({std::string(600, 'a')}), {0}, {}, false); }) ==
        lazyprune_test::unsupported("", {"512", "600"}));
  CHECK(encoded(small(false), std::string(300'000, 'a')).size() == 300'000);
}
