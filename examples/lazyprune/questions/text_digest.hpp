// SPDX-License-Identifier: MIT
// 64-bit hashes of texts, the same on every machine.
#pragma once

#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <lazyprune/core/mix.hpp>
#include <lazyprune/files/json.hpp>

namespace lazyprune {
namespace program {

/// Returns the hash of a text. `before` is the hash of what comes before it.
constexpr std::uint64_t digest_of(std::string_view text, std::uint64_t before = 0) {
  std::uint64_t digest = before + text.size();
  for (const char c : text) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

/// The hash of a list of texts. It also depends on where each text ends.
class text_digest {
 public:
  constexpr text_digest& add(std::string_view text) {
    constexpr std::uint64_t end = 256;  // no byte
    value_ = mix(digest_of(text, value_), end);
    return *this;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Returns the hash in hexadecimal digits.
inline std::string hex_text(std::uint64_t digest) {
  char digits[16];
  return {std::begin(digits), std::to_chars(std::begin(digits), std::end(digits), digest, 16).ptr};
}

/// Reads such digits. Throws `error` if the value is not a text of them.
inline std::uint64_t read_hex(const json_value& value) {
  const std::string& text = value.string();
  std::uint64_t digest = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) value.refuse("hexadecimal digits");
  return digest;
}

}  // namespace program
}  // namespace lazyprune
