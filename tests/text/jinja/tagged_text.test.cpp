// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/tagged_text.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace lazyprune;
using jinja::tagged_text;

TEST_CASE("neighbouring texts of the same origin become one run") {
  tagged_text text("<|im_", true);
  text.append("", false);
  text.append("start|>", true);
  text.append("Hi", false);
  CHECK(text.bytes() == "<|im_start|>Hi");
  CHECK(text.runs() == std::vector<text_run>{{"<|im_start|>", true}, {"Hi", false}});
  CHECK_FALSE(text.trusted());
  CHECK(text.substr(0, 5).trusted());
  CHECK(tagged_text().trusted());
  CHECK(text.trusted_at(11));
  CHECK_FALSE(text.trusted_at(12));
}

TEST_CASE("a document is a run of its own among other texts of the user") {
  tagged_text text("a", false);
  text.append("b", false, true);
  text.append(tagged_text("cd", false, true), 1, 1);
  text.append("e", true);
  CHECK(text.runs() == std::vector<text_run>{{"a", false}, {"bd", false, true}, {"e", true}});
  CHECK(text.document_at(1));
  CHECK_FALSE(text.document_at(0));
  CHECK_FALSE(text.trusted());
}

TEST_CASE("every byte keeps its origin in substrings and in appended texts") {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int round = 0; round < 2000; ++round) {
    tagged_text text, other;
    std::vector<bool> mask, other_mask;
    for (std::size_t i = below(6); i > 0; --i) {
      const bool trusted = below(2) == 0;
      const std::string bytes(below(4), static_cast<char>('a' + below(26)));
      other.append(bytes, trusted);
      other_mask.insert(other_mask.end(), bytes.size(), trusted);
    }
    for (std::size_t i = below(5); i > 0; --i) {
      const std::size_t begin = below(other.size() + 2), size = below(other.size() + 2);
      text.append(other, begin, size);
      for (std::size_t at = begin; at < std::min(begin + size, other.size()); ++at) mask.push_back(other_mask[at]);
    }
    REQUIRE(text.size() == mask.size());
    for (std::size_t i = 0; i < mask.size(); ++i) REQUIRE(text.trusted_at(i) == mask[i]);
    const std::vector<text_run> runs = text.runs();
    for (std::size_t i = 1; i < runs.size(); ++i) REQUIRE(runs[i].trusted != runs[i - 1].trusted);
  }
}
