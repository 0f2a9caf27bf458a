// SPDX-License-Identifier: MIT
// What the patterns do to texts is held against tokenizers of their kinds in gguf_tokenizer.test.cpp.
#include <lazyprune/text/tokenizer/named_words.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string_view>

#include <text/tokenizer/known_unicode.hpp>

using lazyprune::find_named_words;

TEST_CASE("ways to split are found by their names alone; every pattern compiles") {
  REQUIRE(find_named_words("smollm"));
  CHECK(find_named_words("smollm")->patterns[1] == lazyprune::pre_tokenizer::gpt2_words);
  for (const char* alike : {"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "dbrx", "smaug-bpe"}) {
    CAPTURE(alike);
    REQUIRE(find_named_words(alike));
    const bool as_llama3 = std::string_view(alike) != "dbrx" && std::string_view(alike) != "smaug-bpe";
    CHECK(find_named_words(alike)->patterns == find_named_words("llama-bpe")->patterns);
    CHECK(find_named_words(alike)->ignore_merges == as_llama3);
    CHECK(find_named_words(alike)->adds_bos == as_llama3);
  }
  for (const char* guessed : {"default", "mpt", "command-r", "deepseek-llm", "seed-coder"}) CHECK(find_named_words(guessed) == nullptr);
  CHECK(find_named_words("") == nullptr);
  const auto* const characters = lazyprune_test::known_unicode();
  std::set<std::string_view> names;
  for (const lazyprune::named_words& one : lazyprune::detail::all_named_words) {
    CHECK(names.insert(one.name).second);
    for (const std::string_view pattern : one.patterns)
      if (characters && !pattern.empty()) CHECK(characters->compile(pattern) != nullptr);
  }
}
