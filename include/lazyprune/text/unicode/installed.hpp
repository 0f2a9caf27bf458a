// SPDX-License-Identifier: MIT
// The `unicode` interface, implemented with the libraries PCRE2 and utf8proc. Link lazyprune::unicode to use it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <utf8proc.h>

#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>
#include <lazyprune/text/unicode/normal_forms.hpp>
#include <lazyprune/text/unicode/pcre2_regex.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

class pcre2_and_utf8proc final : public unicode {
 public:
  std::shared_ptr<const regex> compile(std::string_view pattern) const override { return std::make_shared<pcre2_regex>(pattern); }
  std::string normalized(std::string_view text, normal_form form) const override { return normalized_by_utf8proc(text, form); }

  std::string lowercase(std::string_view text) const override {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
      const std::size_t size = utf8_length(text[0]);
      const char32_t code = utf8_code(text.substr(0, size));
      if (code == 0x130)  // the only character whose lower case has two characters
        out += "i\xcc\x87";
      else
        append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
      text.remove_prefix(size);
    }
    return out;
  }

  bool is_number(char32_t code) const override { return category_of(code)[0] == 'N'; }
  bool is_punctuation(char32_t code) const override { return category_of(code)[0] == 'P'; }
  bool is_word(char32_t code) const override {
    const std::string_view category = category_of(code);
    // Circled and squared letters are alphabetic, although their category is So.
    const bool circled = (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
                         (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
    return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Nl" || category == "Pc" || code == 0x200c ||
           code == 0x200d || circled;
  }

  std::string versions() const override {
    char patterns[64] = {};
    pcre2_config_8(PCRE2_CONFIG_UNICODE_VERSION, patterns);
    return std::string("Unicode ") + patterns + " in patterns, " + utf8proc_unicode_version() + " in normal forms";
  }

 private:
  static std::string_view category_of(char32_t code) { return utf8proc_category_string(static_cast<utf8proc_int32_t>(code)); }
};

}  // namespace detail

/// Returns the implementation with PCRE2 and utf8proc. It lives as long as the program.
inline const unicode& installed_unicode() {
  static const detail::pcre2_and_utf8proc installed;
  return installed;
}

}  // namespace v0
}  // namespace lazyprune
