// SPDX-License-Identifier: MIT
#include <lazyprune/text/unicode/normal_forms.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <utf8proc.h>

using lazyprune::normal_form;
using lazyprune::normalized_by_utf8proc;

namespace {

std::string by_library(const std::string& text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &out,
                                 static_cast<utf8proc_option_t>(options));
  REQUIRE(size >= 0);
  const std::string mapped(reinterpret_cast<char*>(out), static_cast<std::size_t>(size));
  std::free(out);
  return mapped;
}

}  // namespace

TEST_CASE("each normal form gives the expected text") {
  const std::string text = "e\xcc\x81\xef\xac\x81\xe2\x84\xab";  // e with an acute, the ligature fi, the angstrom sign
  CHECK(normalized_by_utf8proc(text, normal_form::nfc) == "\xc3\xa9\xef\xac\x81\xc3\x85");
  CHECK(normalized_by_utf8proc(text, normal_form::nfd) ==
        "e\xcc\x81\xef\xac\x81"
        "A\xcc\x8a");
  CHECK(normalized_by_utf8proc(text, normal_form::nfkc) ==
        "\xc3\xa9"
        "fi\xc3\x85");
  CHECK(normalized_by_utf8proc(text, normal_form::nfkd) ==
        "e\xcc\x81"
        "fiA\xcc\x8a");
  CHECK(normalized_by_utf8proc("", normal_form::nfc).empty());
  CHECK(normalized_by_utf8proc(std::string("a\0b", 3), normal_form::nfkc) == std::string("a\0b", 3));
}

TEST_CASE("a character between combining marks is normalized as utf8proc's own function does it") {
  const int stable = UTF8PROC_STABLE;
  for (char32_t code = 1; code < 0x30000; code += code < 0x3400 || (code > 0xf8ff && code < 0x10000) || code > 0x1d000 ? 1 : 17) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text = "x\xcc\x95";  // a mark of class 232 stands before the character, marks of classes 220 and 230 after it
    lazyprune::append_utf8(text, code);
    text += "\xcc\xa3\xcc\x81 ";
    const bool same = normalized_by_utf8proc(text, normal_form::nfc) == by_library(text, stable | UTF8PROC_COMPOSE) &&
                      normalized_by_utf8proc(text, normal_form::nfd) == by_library(text, stable | UTF8PROC_DECOMPOSE) &&
                      normalized_by_utf8proc(text, normal_form::nfkc) == by_library(text, stable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT) &&
                      normalized_by_utf8proc(text, normal_form::nfkd) == by_library(text, stable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    REQUIRE_MESSAGE(same, static_cast<std::uint32_t>(code));
  }
}

TEST_CASE("a million marks in the wrong order are sorted") {
  std::string text = "a", sorted = "a";
  for (int i = 0; i < 500'000; ++i) text += "\xcc\x95\xcc\xa3";
  const std::string out = normalized_by_utf8proc(text, normal_form::nfd);
  CHECK(out.size() == text.size());
  CHECK(out.substr(0, 5) == "a\xcc\xa3\xcc\xa3");
  CHECK(out.ends_with("\xcc\x95\xcc\x95"));
}
