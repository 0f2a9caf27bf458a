// SPDX-License-Identifier: MIT
// Translates regular expressions from Oniguruma to PCRE2. tokenizer.json uses Oniguruma, which has Ruby's syntax. The result has the same
// matches if PCRE2 compiles it with the options UTF, UCP and multi-line, and with LF as newline. A construct that cannot be translated is
// refused by name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/utf8.hpp>

namespace lazyprune {
inline namespace v0 {

namespace detail {

class oniguruma_reader {
 public:
  explicit oniguruma_reader(std::string_view pattern) : pattern_(pattern) {}

  std::string translated() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '(') {
        open_group();
      } else if (c == ')') {
        close_group();
      } else if (c == '[') {
        begin_atom();
        out_ += '[';
        char_class();
        out_ += ']';
      } else if (c == '\\') {
        begin_atom();
        escape(false);
      } else if (c == '|' || c == '^') {
        out_ += c;
        ++at_;
        literal_ = 0;
      } else if (c == '$') {  // the end of a line in Ruby
        out_ += "(?=\\n|\\z)";
        ++at_;
        literal_ = 0;
      } else if (c == '*' || c == '+' || c == '?') {
        out_ += c;
        ++at_;
        literal_ = 0;
      } else if (c == '{') {
        interval();
      } else {
        begin_atom();
        literal(pattern_.substr(at_, utf8_length(c)));
        at_ += utf8_length(c);
      }
    }
    if (!groups_.empty()) refuse("a ) for every (", "too few");
    return std::move(out_);
  }

 private:
  struct group {
    std::size_t begin;  // where the group begins in out_
    bool ignores_case;  // whether case is ignored after the group
  };

  [[noreturn]] static void refuse(std::string_view expected, std::string_view found, error_code code = error_code::unsupported) {
    throw error("", "", expected, found, code);
  }

  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void begin_atom() {
    if (pattern_[at_] == '[' || pattern_[at_] == '\\') literal_ = 0;
    atom_ = out_.size();
  }

  /// Writes a character that stands for itself. If case is ignored, refuses characters beyond ASCII, and also refuses two letters in a
  /// row that a single character folds to. For example, the sharp s folds to ss, so (?i)ss matches it in Oniguruma, but not
  /// in PCRE2.
  void literal(std::string_view character) {
    const char lower =
        character.size() == 1 && character[0] >= 'A' && character[0] <= 'Z' ? static_cast<char>(character[0] + 32) : character[0];
    constexpr std::array<std::string_view, 5> folded = {"ff", "fi", "fl", "ss", "st"};
    if (ignores_case_ && character.size() > 1) refuse("ASCII where case is ignored", in_quotes(character));
    if (ignores_case_ && std::ranges::find(folded, std::string{literal_, lower}) != folded.end())
      refuse("no ff, fi, fl, ss or st where case is ignored, because PCRE2 matches these differently",
             in_quotes(std::string{literal_, lower}));
    literal_ = lower;
    out_ += character;
  }

  void open_group() {
    static constexpr std::array<std::string_view, 6> kinds = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    groups_.push_back({out_.size(), ignores_case_});
    if (groups_.size() > 200) refuse("groups of at most 200 levels", "more");
    literal_ = 0;
    if (!next_is("(?")) {
      out_ += "(?:";
      ++at_;
      return;
    }
    for (const std::string_view kind : kinds)
      if (next_is(kind)) {
        out_ += kind;
        at_ += kind.size();
        return;
      }
    const bool ignores = next_is("(?i:"), minds = next_is("(?-i:");
    if (next_is("(?i)") && at_ == 0) {  // here it applies to the whole pattern; elsewhere it begins a group in Ruby
      ignores_case_ = true;
      groups_.pop_back();
      out_ += "(?i)";
      at_ += 4;
    } else if (ignores || minds) {
      ignores_case_ = ignores;
      out_ += ignores ? "(?i:" : "(?-i:";
      at_ += ignores ? 4 : 5;
    } else {
      refuse("a group (...), (?:...), (?i:...), (?=...), (?!...), (?<=...), (?<!...) or (?>...)", in_quotes(pattern_.substr(at_, 6)));
    }
  }

  void close_group() {
    if (groups_.empty()) refuse("a ( for every )", "too many )", error_code::bad_input);
    atom_ = groups_.back().begin;
    ignores_case_ = groups_.back().ignores_case;
    groups_.pop_back();
    out_ += ')';
    ++at_;
    literal_ = 0;
  }

  /// Translates {n}, {n,} or {n,m}. In Ruby, a{1,3}+ means (?:a{1,3})+. In PCRE2, the + would make the interval possessive.
  void interval() {
    std::size_t end = at_ + 1;
    bool comma = false, digits = false;
    for (; end < pattern_.size() && pattern_[end] != '}'; ++end) {
      const bool is_digit = pattern_[end] >= '0' && pattern_[end] <= '9';
      if (!is_digit && (pattern_[end] != ',' || comma || !digits)) break;
      comma = comma || pattern_[end] == ',';
      digits = true;
    }
    if (end >= pattern_.size() || pattern_[end] != '}' || !digits) refuse("{n}, {n,} or {n,m}", in_quotes(pattern_.substr(at_, 8)));
    out_ += pattern_.substr(at_, end + 1 - at_);
    at_ = end + 1;
    literal_ = 0;
    if (next_is("+") || next_is("?") || next_is("*") || next_is("{")) {
      if (next_is("?") && comma) return;  // lazy in both syntaxes
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
  }

  /// Translates an escape, in a character class or outside. \s and \w are written out because PCRE2's differ from Ruby's.
  void escape(bool in_class) {
    static constexpr std::string_view space =
        "\\x{9}-\\x{d} \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
    static constexpr std::string_view word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    static constexpr std::string_view hexadecimal = "0-9A-Fa-f";
    if (at_ + 1 >= pattern_.size()) refuse("a character after a backslash", "none", error_code::bad_input);
    const char c = pattern_[at_ + 1];
    at_ += 2;
    const auto set = [&](std::string_view members, bool negated) {
      if (in_class && negated) refuse("no \\W or \\H in a class", in_quotes(pattern_));
      if (in_class)
        out_ += members;
      else
        out_.append(negated ? "[^" : "[").append(members).append("]");
    };
    switch (c) {
      case 's':
      case 'S':
        if (in_class && c == 'S') {
          out_ += "\\P{wspace}";
          return;
        }
        return set(space, c == 'S');
      case 'w':
      case 'W':
        return set(word, c == 'W');
      case 'h':
      case 'H':
        return set(hexadecimal, c == 'H');
      case 'd':
        out_ += "\\p{Nd}";
        return;
      case 'D':
        out_ += "\\P{Nd}";
        return;
      case 'p':
      case 'P':
        return property(c == 'P');
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        out_.append("\\").append(1, c);
        return;
      case 'v':
        out_ += "\\x{b}";
        return;
      case 'A':
      case 'z':
        if (in_class) break;
        out_.append("\\").append(1, c);
        return;
      case 'x':
      case 'u':
        return code_point(c);
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte < 0x20)
      refuse("an escape that is supported", in_quotes(pattern_.substr(at_ - 2, 2)));
    out_.append("\\").append(1, c);
    if (!in_class) literal_ = 0;
  }

  /// Translates \xHH, \x{H...} and \uHHHH. \xHH must be ASCII, because it stands for a byte in Oniguruma.
  void code_point(char kind) {
    const bool braces = kind == 'x' && next_is("{");
    if (braces) ++at_;
    const std::size_t most = kind == 'u' ? 4 : braces ? 6 : 2;
    unsigned long code = 0;
    std::size_t digits = 0;
    for (; digits < most && at_ < pattern_.size(); ++digits, ++at_) {
      const char c = pattern_[at_];
      const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (value < 0) break;
      code = code * 16 + static_cast<unsigned long>(value);
    }
    const bool whole = braces ? digits > 0 && next_is("}") : digits == most;
    if (!whole || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (kind == 'x' && !braces && code > 0x7f))
      refuse("\\xHH of ASCII, \\x{H} or \\uHHHH", in_quotes(pattern_));
    if (braces) ++at_;
    static constexpr std::string_view hexadecimal = "0123456789abcdef";
    out_ += "\\x{";
    for (int shift = 20; shift >= 0; shift -= 4) out_ += hexadecimal[code >> shift & 15];
    out_ += '}';
  }

  /// Translates \p{X}, \p{^X} and \P{X}. X is the short name of a general category, such as Lu, or the name of a script, such as Han.
  void property(bool negated) {
    static constexpr std::array<std::string_view, 37> categories = {
        "C", "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No",
        "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Cs"};
    static constexpr std::array<std::string_view, 14> scripts = {"Han",        "Hiragana", "Katakana", "Hangul", "Latin",
                                                                 "Greek",      "Cyrillic", "Arabic",   "Hebrew", "Thai",
                                                                 "Devanagari", "Bengali",  "Tibetan",  "Common"};
    const std::size_t end = pattern_.find('}', at_);
    if (!next_is("{") || end == pattern_.npos) refuse("\\p{NAME}", in_quotes(pattern_.substr(at_ - 2, 8)), error_code::bad_input);
    std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const bool script = std::ranges::find(scripts, name) != scripts.end();
    if (!script && std::ranges::find(categories, name) == categories.end())
      refuse("\\p of a general category or a script", in_quotes(name));
    out_.append(negated ? "\\P{" : "\\p{").append(script ? "sc:" : "").append(name).append("}");
    at_ = end + 1;
  }

  /// Translates a character class from [ to ]. The members of a class within it become members of the outer class.
  void char_class() {
    ++at_;
    if (next_is("^")) {
      out_ += '^';
      ++at_;
    }
    std::size_t depth = 1;
    for (bool first = true; depth > 0; first = false) {
      if (at_ >= pattern_.size()) refuse("a ] for every [", "too few", error_code::bad_input);
      const char c = pattern_[at_];
      if (next_is("&&")) refuse("no && in a class", in_quotes(pattern_));
      if (next_is("[:") || next_is("[^")) refuse("no [: or [^ in a class", in_quotes(pattern_));
      if (c == '\\') {
        escape(true);
      } else if (c == ']') {
        if (first) refuse("a class with members", in_quotes(pattern_));
        --depth;
        ++at_;
      } else if (c == '[') {  // the inner members are written inline, so a - beside them would become a range
        if (out_.back() == '-' || next_is("[-")) refuse("no - beside a class in a class", in_quotes(pattern_));
        ++depth;
        ++at_;
      } else {
        if (ignores_case_ && static_cast<unsigned char>(c) >= 0x80) refuse("ASCII where case is ignored", in_quotes(pattern_));
        out_ += pattern_.substr(at_, utf8_length(c));
        at_ += utf8_length(c);
      }
    }
    literal_ = 0;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;  // where the last atom begins in out_
  std::vector<group> groups_;
  bool ignores_case_ = false;
  char literal_ = 0;  // the previous character if it stood for itself, else 0
};

}  // namespace detail

/// Returns the pattern for PCRE2. Throws `error` without file and place if the pattern is malformed or cannot be translated.
inline std::string pcre2_of_oniguruma(std::string_view pattern) { return detail::oniguruma_reader(pattern).translated(); }

}  // namespace v0
}  // namespace lazyprune
