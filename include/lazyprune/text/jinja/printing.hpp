// SPDX-License-Identifier: MIT
// Python's str and repr of values. Strings keep their origin. Characters that printing adds, such as brackets, count as the user's
// text. Therefore a list or dictionary of the user cannot become part of a special token when it is printed.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/characters.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// Returns a description of a value for errors.
inline std::string described(const value& v) {
  switch (v.kind()) {
    case kind::undefined:
      return v.get_if<undefined>()->why ? *v.get_if<undefined>()->why : "an undefined value";
    case kind::none:
      return "none";
    case kind::boolean:
      return "a truth value";
    case kind::integer:
    case kind::real:
      return "a number";
    case kind::string:
      return "a string";
    case kind::sequence:
      switch (v.sequence()->kind) {
        case sequence_kind::list:
          return "a list";
        case sequence_kind::tuple:
          return "a tuple";
        case sequence_kind::range:
          return "a range";
        case sequence_kind::view:
          return "a view of a dictionary";
        case sequence_kind::generator:
          return "a generator";
      }
      return "a list";
    case kind::dict:
      return "a dictionary";
    case kind::name_space:
      return "a namespace";
    case kind::loop:
      return "a loop";
    case kind::turns:
      return (*v.get_if<turns*>())->joins ? "a joiner" : "a cycler";
    case kind::macro:
      return "a macro";
    case kind::method:
    case kind::function:
      return "a function";
  }
  return "a value";
}

/// Returns repr of a float: the shortest digits that read back as the same number.
inline std::string real_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view shown(buffer, static_cast<std::size_t>(end - buffer));  // -d.ddde-xx
  const std::size_t e = shown.find('e');
  int exponent = 0;
  const char* const digits_of_exponent = buffer + e + (shown[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shown);
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed).ptr;
  std::string fixed(buffer, static_cast<std::size_t>(fixed_end - buffer));
  if (fixed.find('.') == fixed.npos) fixed += ".0";
  return fixed;
}

namespace detail {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

/// Appends `\`, the letter, and `code` with `digits` hexadecimal digits.
inline void append_escape(tagged_text& out, char letter, std::uint32_t code, int digits, bool document) {
  char buffer[10] = {'\\', letter};
  for (int i = 0; i < digits; ++i) buffer[2 + i] = hex_digits[code >> 4 * (digits - 1 - i) & 15];
  out.append(std::string_view(buffer, static_cast<std::size_t>(digits + 2)), false, document);
}

inline void append_quoted(const tagged_text& text, tagged_text& out) {
  const std::string_view bytes = text.bytes();
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  out.append({&quote, 1}, false);
  std::size_t plain = 0;  // the bytes from here to `at` need no escape, and are not yet appended
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [code, size] = first_character(bytes.substr(at));
    constexpr std::string_view named = "\\\n\r\t", letters = "\\nrt";
    const std::size_t known = code < 0x80 ? named.find(static_cast<char>(code)) : named.npos;
    const bool is_quote = code == static_cast<std::uint32_t>(quote);
    if (is_quote || known != named.npos || !is_printable(code)) {
      const bool document = text.document_at(at);
      out.append(text, plain, at - plain);
      if (is_quote || known != named.npos) {
        const char escape[] = {'\\', is_quote ? quote : letters[known]};
        out.append({escape, 2}, false, document);
      } else if (code < 0x100) {
        append_escape(out, 'x', code, 2, document);
      } else if (code < 0x10000) {
        append_escape(out, 'u', code, 4, document);
      } else {
        append_escape(out, 'U', code, 8, document);
      }
      plain = at + size;
    }
    at += size;
  }
  out.append(text, plain, bytes.size() - plain);
  out.append({&quote, 1}, false);
}

}  // namespace detail

/// Appends repr(v). The depth of recursion is at most the height of the value.
inline void append_repr(const value& v, tagged_text& out, budget& work) {
  work.write(16);
  const auto put = [&](std::string_view text) { out.append(text, false); };
  switch (v.kind()) {
    case kind::undefined:
      return put("Undefined");
    case kind::none:
      return put("None");
    case kind::boolean:
      return put(*v.get_if<bool>() ? "True" : "False");
    case kind::integer:
      return put(std::to_string(*v.get_if<std::int64_t>()));
    case kind::real:
      return put(real_text(*v.get_if<double>()));
    case kind::string:
      work.write(2 * v.text()->size());
      return detail::append_quoted(*v.text(), out);
    case kind::sequence: {
      const sequence& s = *v.sequence();
      if (s.kind != sequence_kind::list && s.kind != sequence_kind::tuple) break;
      const bool is_list = s.kind == sequence_kind::list;
      put(is_list ? "[" : "(");
      for (std::size_t i = 0; i < s.items.size(); ++i) {
        if (i > 0) put(", ");
        append_repr(s.items[i], out, work);
      }
      return put(is_list ? "]" : s.items.size() == 1 ? ",)" : ")");
    }
    case kind::dict: {
      put("{");
      bool first = true;
      for (const auto& [key, item] : v.dict()->entries) {
        if (!first) put(", ");
        first = false;
        append_repr(key, out, work);
        put(": ");
        append_repr(item, out, work);
      }
      return put("}");
    }
    default:
      break;
  }
  refuse("a value that can be printed", described(v), error_code::unsupported);
}

/// Returns str(v): a string as it is, an empty text for undefined, repr(v) for all else.
inline text_ptr text_of(const value& v, budget& work) {
  if (const auto* text = v.get_if<text_ptr>()) return *text;
  tagged_text out;
  if (!v.is_undefined()) append_repr(v, out, work);
  return std::make_shared<const tagged_text>(std::move(out));
}

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
