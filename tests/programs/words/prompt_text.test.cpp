// SPDX-License-Identifier: MIT
#include "words/prompt_text.hpp"

#include <doctest/doctest.h>

#include <fault.hpp>
#include <files/support.hpp>

using namespace lazyprune::program;
using lazyprune_test::at;
using lazyprune_test::error_of;
using namespace std::string_literals;

TEST_CASE("the byte order mark and the last line break are dropped, and CRLF becomes LF") {
  CHECK(prompt_text("a\nb", "F") == "a\nb");
  CHECK(prompt_text("a\nb\n", "F") == "a\nb");
  CHECK(prompt_text("a\n\n", "F") == "a\n");  // only one line break is dropped
  CHECK(prompt_text("\xEF\xBB\xBF"
                    "a\r\nb\r\n",
                    "F") == "a\nb");
  CHECK(prompt_text("a\rb\r", "F") == "a\rb\r");  // a lone CR stays
  CHECK(prompt_text("a\r\r\nb", "F") == "a\r\nb");
  CHECK(prompt_text("a\xEF\xBB\xBF"
                    "b",
                    "F") ==
        "a\xEF\xBB\xBF"
        "b");  // a byte order mark in the middle stays
}

TEST_CASE("UTF-16, NUL bytes and an empty text are refused") {
  CHECK(error_of([] { prompt_text("\xFF\xFEh\0i\0"s, "F"); }) == at("F", {"UTF-16"}));
  CHECK(error_of([] { prompt_text("\xFE\xFF\0h\0i"s, "F"); }) == at("F", {"UTF-16"}));
  CHECK(error_of([] { prompt_text("h\0i\0"s, "F"); }) == at("F: byte 1", {"NUL"}));
  for (const char* empty : {"", "\n", "\r\n", "\xEF\xBB\xBF", "\xEF\xBB\xBF\r\n"})
    CHECK(error_of([&] { prompt_text(empty, "F"); }) == at("F"));
  const lazyprune_test::temporary_folder files;
  CHECK(error_of([&] { read_prompt(files / "none.txt"); }) == at(files / "none.txt"));
  CHECK(read_prompt(files.write("crlf.txt", "a\r\nb\r\n")) == "a\nb");
}

TEST_CASE("escapes") {
  CHECK(unescaped(R"(a\nb\tc\r\\n\"\')") == "a\nb\tc\r\\n\"'");
  CHECK(unescaped(R"(\x41\xe4\x4)") == "A\xe4\\x4");
  CHECK(unescaped(R"(\xzz\q\)") == R"(\xzz\q\)");
  CHECK(unescaped("") == "");
}
