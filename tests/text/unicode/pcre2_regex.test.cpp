// SPDX-License-Identifier: MIT
#include <lazyprune/text/unicode/pcre2_regex.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <files/support.hpp>

using lazyprune::pcre2_regex;
using lazyprune::text_range;
using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::unsupported;

namespace {

/// Returns all matches, with a bar after each.
std::string matches(std::string_view pattern, const std::string& text) {
  const pcre2_regex expression(pattern);
  std::string all;
  std::size_t at = 0;
  while (const auto found = expression.find(text, at)) {
    if (found->begin == found->end) break;
    all += text.substr(found->begin, found->end - found->begin) + "|";
    at = found->end;
  }
  return all;
}

}  // namespace

TEST_CASE("character classes match as in Oniguruma") {
  CHECK(matches(R"(\s)",
                "a\xe1\xa0\x8e"
                "b\xc2\x85"
                "c\x1c"
                "d\xe2\x80\x8b") == "\xc2\x85|");  // \s matches U+0085, but not U+180E, U+001C or U+200B
  CHECK(matches(R"([^\S])", "a b") == " |");
  CHECK(matches(R"(\w+)",
                "a\xcc\x81_b\xe2\x80\x8d"
                "c\xe2\x85\xa0\xe2\x93\x90 \xe2\x91\xa0") == "a\xcc\x81_b|c\xe2\x85\xa0\xe2\x93\x90|");  // U+200D and U+2460 do not match
  CHECK(matches(R"(\d+)", "12\xd9\xa3\xc2\xb2") == "12\xd9\xa3|");
  CHECK(matches(R"(\p{Han}+)", "a\xe6\x97\xa5\xe6\x9c\xac\xe3\x83\xbc\xe3\x80\x85") ==
        "\xe6\x97\xa5\xe6\x9c\xac|\xe3\x80\x85|");  // \p{Han} asks for the script, and ignores script extensions
  CHECK(matches("(?i:'s)", "'s 'S '\xc5\xbf 'x") == "'s|'S|'\xc5\xbf|");
}

TEST_CASE("line ends and dots match as in Ruby") {
  CHECK(matches("^a", "a\na a") == "a|a|");
  CHECK(matches(R"(\s++$|a)", "x a  ") == "a|  |");
  CHECK(matches(".", "a\r\n") == "a|\r|");
  CHECK(matches(R"(\p{N}{1,3}+)", "a1234567") == "1234567|");
}

TEST_CASE("a search may look behind the place at which it begins") {
  const pcre2_regex behind("(?<=a)b");
  CHECK(behind.find("ab", 1) == text_range{1, 2});
  CHECK_FALSE(behind.find("xb", 1).has_value());
  CHECK_FALSE(behind.find("", 0).has_value());
}

TEST_CASE("malformed patterns and searches with too many steps are refused") {
  CHECK(error_of([] { pcre2_regex("(?<=a+)b"); }) == at("", {"\"(?<=a+)b\""}));
  CHECK(error_of([] { pcre2_regex("*"); }) != "no error");
  CHECK(error_of([] { pcre2_regex(std::string(100'000, 'a')); }) == at("", {"65536", "100000"}));
  const pcre2_regex endless("(a*)*b|(a|aa)+c");
  CHECK(error_of([&] { endless.find(std::string(5000, 'a'), 0); }) == unsupported(""));
}

TEST_CASE("several threads can match long runs at the same time") {
  const pcre2_regex words(R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+(?i:'s|'t)?|\s*[\r\n]+|\s+(?!\S)|\s+)");
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const std::string letters(500'000, 'a'), spaces(500'000, ' ');
      right += words.find(letters, 0) == text_range{0, letters.size()} ? 1 : 0;
      right += words.find(spaces, 0) == text_range{0, spaces.size()} ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}
