// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/search.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace lazyprune;
using jinja::searcher;

TEST_CASE("a search finds the same places as a loop that tries every place") {
  std::mt19937 random(1);
  jinja::budget work(1'000'000);
  const auto letters = [&](std::size_t size) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::string text = letters(random() % 200);
    std::string needle = letters(random() % 40);
    if (round % 2 == 0 && !text.empty()) needle = text.substr(random() % text.size(), random() % 60);
    const std::size_t from = random() % (text.size() + 1);
    REQUIRE(searcher(needle, work).find(text, from) == text.find(needle, from));
  }
}

TEST_CASE("a long needle that nearly fits everywhere takes linear time") {
  const std::string text(1'000'000, 'a'), needle = std::string(500'000, 'a') + 'b';
  jinja::budget work(1'000'000);
  CHECK(searcher(needle, work).find(text) == std::string::npos);
}
