// SPDX-License-Identifier: MIT
// What reading a tokenizer.json asks of Unicode beyond UTF-8: regular expressions, normal forms, letter case and kinds of characters.
// Libraries know these: text/unicode/ has them behind this interface. What needs none of them is read without.
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

/// Any number of threads may search at a time.
class regex {
 public:
  regex() = default;
  regex(const regex&) = delete;
  regex& operator=(const regex&) = delete;
  virtual ~regex() = default;

  /// The leftmost match in the well-formed text that begins at this byte or later. Throws `error` where the search takes too many steps.
  virtual std::optional<text_range> find(std::string_view text, std::size_t from) const = 0;
};

enum class normal_form : std::uint8_t { nfc, nfd, nfkc, nfkd };

class unicode {
 public:
  unicode() = default;
  unicode(const unicode&) = delete;
  unicode& operator=(const unicode&) = delete;
  virtual ~unicode() = default;

  /// A pattern in Oniguruma's syntax (Ruby's), which is what tokenizer.json is written in. Throws `error` with no file and no place where
  /// it is malformed, or would mean something else here.
  virtual std::shared_ptr<const regex> compile(std::string_view pattern) const = 0;
  /// The texts are well-formed UTF-8.
  virtual std::string normalized(std::string_view text, normal_form form) const = 0;
  /// Each character by itself: a capital sigma becomes U+03C3 at the end of a word too.
  virtual std::string lowercase(std::string_view text) const = 0;
  /// General category N.
  virtual bool is_number(char32_t code) const = 0;
  /// General category P.
  virtual bool is_punctuation(char32_t code) const = 0;
  /// \w of UTS 18: alphabetic characters, marks, decimal digits, connectors, joiners.
  virtual bool is_word(char32_t code) const = 0;
  /// The versions of Unicode that this knows, for people.
  virtual std::string versions() const = 0;
};

}  // namespace v0
}  // namespace lazyprune
