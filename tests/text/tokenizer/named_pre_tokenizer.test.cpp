// SPDX-License-Identifier: MIT
// gguf_tokenizer.test.cpp tests the patterns themselves. It compares the ids that each pattern gives with the ids of a tokenizer.json.
#include <lazyprune/text/tokenizer/named_pre_tokenizer.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string_view>

#include <text/tokenizer/known_unicode.hpp>

using lazyprune::find_pre_tokenizer;

TEST_CASE("pre-tokenizers are found by their exact names; every pattern compiles") {
  REQUIRE(find_pre_tokenizer("smollm"));
  CHECK(find_pre_tokenizer("smollm")->patterns[1] == lazyprune::pre_tokenizer::gpt2_words);
  for (const char* alike : {"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "dbrx", "smaug-bpe"}) {
    CAPTURE(alike);
    REQUIRE(find_pre_tokenizer(alike));
    const bool as_llama3 = std::string_view(alike) != "dbrx" && std::string_view(alike) != "smaug-bpe";
    CHECK(find_pre_tokenizer(alike)->patterns == find_pre_tokenizer("llama-bpe")->patterns);
    CHECK(find_pre_tokenizer(alike)->ignore_merges == as_llama3);
    CHECK(find_pre_tokenizer(alike)->adds_bos == as_llama3);
  }
  for (const char* guessed : {"default", "mpt", "command-r", "deepseek-llm", "seed-coder"}) CHECK(find_pre_tokenizer(guessed) == nullptr);
  CHECK(find_pre_tokenizer("") == nullptr);
  const auto* const characters = lazyprune_test::known_unicode();
  std::set<std::string_view> names;
  for (const lazyprune::named_pre_tokenizer& one : lazyprune::detail::all_named_pre_tokenizers) {
    CHECK(names.insert(one.name).second);
    for (const std::string_view pattern : one.patterns)
      if (characters && !pattern.empty()) CHECK(characters->compile(pattern) != nullptr);
  }
}
