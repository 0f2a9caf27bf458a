// SPDX-License-Identifier: MIT
// Computes Unicode's normal forms with utf8proc's tables. Combining marks are sorted here, because utf8proc needs time O(n^2) for a run of
// n marks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <utf8proc.h>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/tokenizer/unicode.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

/// Appends the normal form of `text` to `out`. `buffer` is scratch memory. Throws `error` if utf8proc does not know a character.
inline void append_normal(std::string& out, std::string_view text, normal_form form, std::vector<utf8proc_int32_t>& buffer) {
  const bool compatible = form == normal_form::nfkc || form == normal_form::nfkd,
             composed = form == normal_form::nfc || form == normal_form::nfkc;
  const unsigned decompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? unsigned{UTF8PROC_COMPAT} : 0u);
  buffer.clear();
  while (!text.empty()) {
    const std::size_t size = utf8_length(text[0]);
    const auto code = static_cast<utf8proc_int32_t>(utf8_code(text.substr(0, size)));
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(code, parts, 32, static_cast<utf8proc_option_t>(decompose), &boundary);
    if (count < 0 || count > 32)
      throw error("", "", "characters that utf8proc knows", "U+" + std::to_string(code), error_code::unsupported);
    buffer.insert(buffer.end(), parts, parts + count);
    text.remove_prefix(size);
  }

  const auto combining_class = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  for (auto begin = buffer.begin(); begin != buffer.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, buffer.end(), [&](utf8proc_int32_t code) { return combining_class(code) == 0; });
    std::stable_sort(begin, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  auto size = static_cast<utf8proc_ssize_t>(buffer.size());
  if (composed) size = utf8proc_normalize_utf32(buffer.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<char32_t>(buffer[static_cast<std::size_t>(i)]));
}

}  // namespace detail

/// Returns `text`, which must be well-formed UTF-8, in this normal form. A text of n bytes needs time O(n log n).
inline std::string normalized_by_utf8proc(std::string_view text, normal_form form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> buffer;
  while (!text.empty()) {
    // A run of ASCII characters stays as it is, except for the last character, because combining marks may follow that one. No ASCII
    // character composes with the character before it.
    const auto ascii_end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_ascii) - text.begin());
    const std::size_t kept = ascii_end == text.size() ? ascii_end : ascii_end - std::min<std::size_t>(ascii_end, 1);
    out.append(text.substr(0, kept));
    text.remove_prefix(kept);
    const auto end = static_cast<std::size_t>(std::find_if(text.begin() + (ascii_end > kept ? 1 : 0), text.end(), is_ascii) - text.begin());
    detail::append_normal(out, text.substr(0, end), form, buffer);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace v0
}  // namespace lazyprune
