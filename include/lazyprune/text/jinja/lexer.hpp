// SPDX-License-Identifier: MIT
// Cuts a template's source into text and tokens, with jinja2's white space control: trim_blocks and lstrip_blocks are set, a newline at the
// end is removed, and all line ends become \n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/text/jinja/characters.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

struct position {
  std::uint32_t line = 1, column = 1;  // both count from 1; a column is one character
};

inline std::string place(position at) { return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column); }

enum class token_kind : std::uint8_t { text, begin_output, end_output, begin_block, end_block, name, string, integer, real, symbol, end };

struct token {
  token_kind kind;
  position at;
  std::string text;  // in a string, escapes are already replaced by their characters
};

/// `name` is the file name in errors. run() throws `error` if the source has something that is not a token.
class lexer {
 public:
  lexer(std::string_view source, std::string_view name) : name_(name), source_(normal(source)) {}

  std::vector<token> run() {
    while (at_ < source_.size()) {
      const std::size_t open = next_opening();
      if (open == source_.size()) {
        put_text(std::string_view(source_).substr(at_));
        at_ = source_.size();
        break;
      }
      read_tag(open);
    }
    tokens_.push_back({token_kind::end, where(source_.size()), {}});
    return std::move(tokens_);
  }

 private:
  static std::string normal(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] != '\r') {
        out += source[i];
        continue;
      }
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
  }

  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view found) {
    throw error(name_, place(where(at)), expected, found);
  }

  /// Returns the line and column of a byte. If `at` ascends from call to call, all calls together read the source once.
  position where(std::size_t at) {
    if (at < walked_) {
      walked_ = 0;
      place_ = {};
    }
    while (walked_ < at) {
      const std::size_t size = first_character(std::string_view(source_).substr(walked_)).size;
      if (source_[walked_] == '\n')
        place_ = {place_.line + 1, 1};
      else
        ++place_.column;
      walked_ += size;
    }
    return place_;
  }

  bool starts(std::size_t at, std::string_view what) const { return std::string_view(source_).substr(at).starts_with(what); }

  std::size_t next_opening() const {
    for (std::size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1))
      if (starts(i, "{{") || starts(i, "{%") || starts(i, "{#")) return i;
    return source_.size();
  }

  void put_text(std::string_view text) {
    if (text.empty()) return;
    tokens_.push_back({token_kind::text, where(static_cast<std::size_t>(text.data() - source_.data())), std::string(text)});
  }
  void put(token_kind kind, std::size_t begin, std::size_t end) {
    tokens_.push_back({kind, where(begin), source_.substr(begin, end - begin)});
  }

  /// Adds the text before a tag. If the tag's sign is -, leaves out the white space at the text's end. Otherwise lstrip_blocks leaves out
  /// the tag's indentation, unless the sign is + or the tag is an output.
  void put_text_before(std::size_t tag, char sign, bool is_output) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = without_trailing_space(text);
    } else if (sign != '+' && !is_output) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == text.npos ? 0 : newline + 1;
      if ((line > 0 || line_starts_) && without_leading_space(text.substr(line)).empty()) text = text.substr(0, line);
    }
    put_text(text);
  }

  /// Continues after a tag that ended at `at_`. Skips all white space if `strips` is true, else one newline if `takes_newline` is true.
  void leave_tag(bool strips, bool takes_newline) {
    const std::size_t begin = at_;
    if (strips)
      at_ = source_.size() - without_leading_space(std::string_view(source_).substr(at_)).size();
    else if (takes_newline && starts(at_, "\n"))
      ++at_;
    line_starts_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  char sign_at(std::size_t at) const { return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0'; }
  std::size_t after_space(std::size_t at) const {
    return source_.size() - without_leading_space(std::string_view(source_).substr(at)).size();
  }

  void read_tag(std::size_t open) {
    const char kind = source_[open + 1];
    const char sign = sign_at(open + 2);
    put_text_before(open, sign, kind == '{');
    at_ = open + 2 + (sign ? 1 : 0);
    if (kind == '#') return read_comment(open);
    if (kind == '%' && try_raw(open)) return;
    tokens_.push_back({kind == '{' ? token_kind::begin_output : token_kind::begin_block, where(open), {}});
    read_tokens(open, kind == '{');
  }

  void read_comment(std::size_t open) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail(open, "a comment that ends with #}", "the end of the template");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    leave_tag(sign == '-', sign != '+');
  }

  /// Reads `{% raw %}` and all text up to `{% endraw %}`. Returns false if the block is not `raw`.
  bool try_raw(std::size_t open) {
    std::size_t at = after_space(at_);
    if (!starts(at, "raw")) return false;
    at = after_space(at + 3);
    const bool strips = starts(at, "-%}");
    if (!strips && !starts(at, "%}")) return false;
    at_ = at + (strips ? 3 : 2);
    leave_tag(strips, false);
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      const char sign = sign_at(tag + 2);
      std::size_t end = after_space(tag + 2 + (sign ? 1 : 0));
      if (!starts(end, "endraw")) continue;
      end = after_space(end + 6);
      const char last = sign_at(end);
      if (!starts(end + (last ? 1 : 0), "%}")) continue;
      put_text_before(tag, sign, false);
      at_ = end + (last ? 3 : 2);
      leave_tag(last == '-', last != '+');
      return true;
    }
    fail(open, "a raw block that ends with {% endraw %}", "the end of the template");
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  void read_tokens(std::size_t open, bool is_output) {
    const std::string_view closing = is_output ? "}}" : "%}";
    std::string brackets;
    for (;;) {
      at_ = after_space(at_);
      if (at_ >= source_.size()) fail(open, "a tag that ends with " + std::string(closing), "the end of the template");
      if (brackets.empty()) {
        const char sign = source_[at_] == '-' || (!is_output && source_[at_] == '+') ? source_[at_] : '\0';
        if (starts(at_ + (sign ? 1 : 0), closing)) {
          tokens_.push_back({is_output ? token_kind::end_output : token_kind::end_block, where(at_), {}});
          at_ += (sign ? 3 : 2);
          return leave_tag(sign == '-', !is_output && sign != '+');
        }
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const char c = source_[at_];
    const std::size_t begin = at_;
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
      return put(token_kind::name, begin, at_);
    }
    if (c == '\'' || c == '"') return read_string(c);
    constexpr std::string_view symbols[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view symbol : symbols) {
      if (!starts(at_, symbol)) continue;
      if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (c == ')' || c == ']' || c == '}') {
        if (brackets.empty() || brackets.back() != c)
          fail(at_, brackets.empty() ? "no closing bracket" : in_quotes(std::string(1, brackets.back())), in_quotes(symbol));
        brackets.pop_back();
      }
      at_ += symbol.size();
      return put(token_kind::symbol, begin, at_);
    }
    fail(at_, "an expression",
         in_quotes(std::string_view(source_).substr(at_, first_character(std::string_view(source_).substr(at_)).size)));
  }

  void read_digits() {
    while (at_ < source_.size() &&
           (is_digit(source_[at_]) || (source_[at_] == '_' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]))))
      ++at_;
  }

  void read_number() {
    const std::size_t begin = at_;
    bool whole = true;
    read_digits();
    // "1.2" is a real number, but in "x.1.2" the point after 1 is a member access
    if (starts(at_, ".") && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]) && (begin == 0 || source_[begin - 1] != '.')) {
      ++at_;
      read_digits();
      whole = false;
    }
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const std::size_t digits = at_ + 1 + (sign_at(at_ + 1) ? 1 : 0);
      if (digits < source_.size() && is_digit(source_[digits])) {
        at_ = digits;
        read_digits();
        whole = false;
      }
    }
    put(whole ? token_kind::integer : token_kind::real, begin, at_);
    std::erase(tokens_.back().text, '_');
  }

  void read_string(char quote) {
    const std::size_t begin = at_++;
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] != '\\')
        text += source_[at_++];
      else
        read_escape(text);
    }
    if (at_ >= source_.size()) fail(begin, "a string that ends", "the end of the template");
    ++at_;
    tokens_.push_back({token_kind::string, where(begin), std::move(text)});
  }

  /// Reads an escape of Python's strings. A backslash before any other character stays as it is.
  void read_escape(std::string& text) {
    const std::size_t begin = at_++;
    if (at_ == source_.size()) return;
    const char c = source_[at_++];
    constexpr std::string_view plain = "\\'\"abfnrtv", meant = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t known = plain.find(c); known != plain.npos) {
      text += meant[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      std::uint32_t code = 0;
      for (std::size_t i = 0; i < digits; ++i, ++at_) {
        constexpr std::string_view hex = "0123456789abcdef";
        const std::size_t digit =
            at_ < source_.size()
                ? hex.find(source_[at_] >= 'A' && source_[at_] <= 'F' ? static_cast<char>(source_[at_] + 32) : source_[at_])
                : hex.npos;
        if (digit == hex.npos) fail(begin, std::to_string(digits) + " hexadecimal digits in an escape", "fewer");
        code = code << 4 | static_cast<std::uint32_t>(digit);
      }
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail(begin, "an escape of a Unicode character", "another number");
      append_utf8(text, code);
    } else if (c >= '0' && c <= '7') {
      std::uint32_t code = static_cast<std::uint32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7'; ++i)
        code = code * 8 + static_cast<std::uint32_t>(source_[at_++] - '0');
      append_utf8(text, code);
    } else if (c == 'N') {
      throw error(name_, place(where(begin)), "no character by its name (\\N{...})", {}, error_code::unsupported);
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
  }

  std::string name_, source_;
  std::size_t at_ = 0;
  bool line_starts_ = true;  // the text at `at_` begins a line
  std::size_t walked_ = 0;   // the byte that `place_` belongs to
  position place_{};
  std::vector<token> tokens_;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
