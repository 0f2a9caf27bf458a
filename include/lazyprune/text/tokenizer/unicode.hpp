// SPDX-License-Identifier: MIT
// The interface for the Unicode functions that a tokenizer.json may need. They are regular expressions, normal forms, letter case and
// character classes. The classes in text/unicode/ implement this interface with libraries. A file that needs none of these functions can
// be read without these classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lazyprune/core/error.hpp>

namespace lazyprune {
inline namespace v0 {

/// Bytes [begin, end) of a text.
struct text_range {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const text_range&, const text_range&) = default;
};

/// A compiled regular expression. Any number of threads may search at the same time.
class regex {
 public:
  regex() = default;
  regex(const regex&) = delete;
  regex& operator=(const regex&) = delete;
  virtual ~regex() = default;

  /// Returns the leftmost match that begins at byte `from` or later, or nullopt. The text must be well-formed. Throws `error` if the search
  /// takes too many steps or too much memory.
  virtual std::optional<text_range> find(std::string_view text, std::size_t from) const = 0;
};

enum class normal_form : std::uint8_t { nfc, nfd, nfkc, nfkd };

class unicode {
 public:
  unicode() = default;
  unicode(const unicode&) = delete;
  unicode& operator=(const unicode&) = delete;
  virtual ~unicode() = default;

  /// Compiles a pattern in Oniguruma's syntax (Ruby's), as tokenizer.json has it. Throws `error` without file and place if the pattern is
  /// malformed, or if it cannot be translated with the same meaning.
  virtual std::shared_ptr<const regex> compile(std::string_view pattern) const = 0;
  /// Returns a text in this normal form. The text must be well-formed UTF-8.
  virtual std::string normalized(std::string_view text, normal_form form) const = 0;
  /// Returns a text in lower case. Each character is mapped by itself: a capital sigma becomes U+03C3 even at the end of a word.
  virtual std::string lowercase(std::string_view text) const = 0;
  /// Returns whether the character's general category is N (number).
  virtual bool is_number(char32_t code) const = 0;
  /// Returns whether the character's general category is P (punctuation).
  virtual bool is_punctuation(char32_t code) const = 0;
  /// Returns whether \w of UTS 18 matches: alphabetic characters, marks, decimal digits, connectors, joiners.
  virtual bool is_word(char32_t code) const = 0;
  /// Returns the supported versions of Unicode, for people.
  virtual std::string versions() const = 0;
};

}  // namespace v0
}  // namespace lazyprune
