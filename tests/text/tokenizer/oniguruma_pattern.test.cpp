// SPDX-License-Identifier: MIT
#include <lazyprune/text/tokenizer/oniguruma_pattern.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include <files/support.hpp>

using lazyprune::pcre2_of_oniguruma;
using lazyprune_test::error_of;
using lazyprune_test::unsupported;

TEST_CASE("constructs with the same meaning in PCRE2 are copied; groups that capture become groups that do not") {
  for (const std::string_view same :
       {R"(\p{L}+|\p{N}{1,3}| ?a++b*?)", R"((?i:ab)(?:x)(?=y)(?!z)(?>q)(?<=r)(?<!s))", R"([^\r\n]?[a-z\-\]])", "(?i)ab"})
    CHECK(pcre2_of_oniguruma(same) == same);
  CHECK(pcre2_of_oniguruma("(a)(b|c)") == "(?:a)(?:b|c)");
}

TEST_CASE("constructs that PCRE2 spells differently are translated") {
  CHECK(pcre2_of_oniguruma(R"(\d\D\v)") == R"(\p{Nd}\P{Nd}\x{b})");
  CHECK(pcre2_of_oniguruma(R"(\p{^L}\P{^N}\p{Han})") == R"(\P{L}\p{N}\p{sc:Han})");
  CHECK(pcre2_of_oniguruma(R"(\h[\h])") == "[0-9A-Fa-f][0-9A-Fa-f]");
  CHECK(pcre2_of_oniguruma(R"(\u00e9\x41\x{1F600})") == R"(\x{0000e9}\x{000041}\x{01f600})");
  CHECK(pcre2_of_oniguruma("a$") == R"(a(?=\n|\z))");
  CHECK(pcre2_of_oniguruma("[a[bc]d]") == "[abcd]");  // a class inside a class adds its members
  // In Ruby, a + after an interval such as {1,3} repeats the interval and does not make it possessive. A ? after {n,m} makes the interval
  // lazy. A ? after {n} makes the repeated part optional.
  CHECK(pcre2_of_oniguruma(R"(x\p{N}{1,3}+)") == R"(x(?:\p{N}{1,3})+)");
  CHECK(pcre2_of_oniguruma("(ab){2}?") == "(?:(?:ab){2})?");
  CHECK(pcre2_of_oniguruma("a{1,2}?") == "a{1,2}?");
}

TEST_CASE("unsupported constructs are refused by name") {
  for (const std::string_view unknown :
       {R"(\b)",      R"(\R)",         R"(\X)",      R"(\K)",       R"(\1)",   R"(\Qa\E)", "(?m:a)",  "a(?i)b",
        "(?<name>a)", "(?#c)",         "[a&&b]",     "[[:alpha:]]", "[a[^b]]", "[]a]",     "[a-[b]]", "a{,2}",
        "{",          R"(\p{Letter})", R"(\p{IsL})", R"(\x80)",     R"([\W])", "(?i:ss)",  "(?i:FI)", "(?i:\xc3\xa9)"})
    CHECK_MESSAGE(lazyprune_test::code_of([&] { pcre2_of_oniguruma(unknown); }) == lazyprune::error_code::unsupported, unknown);
  for (const std::string_view broken : {"a)", "[a", R"(\)", R"(\p{L)"}) CHECK(error_of([&] { pcre2_of_oniguruma(broken); }) != "no error");
  CHECK(error_of([] { pcre2_of_oniguruma(R"(a\b)"); }) == unsupported("", {"\"\\b\""}));
  CHECK(error_of([] { pcre2_of_oniguruma("(a"); }) == unsupported(""));
  CHECK(error_of([] { pcre2_of_oniguruma(std::string(100'000, '(')); }) != "no error");
}
